"""The demonstration tells what it measured, and its parts share no row."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from sordino import demo
from sordino.cli import app
from sordino.report.demo_story import beats, demo_sentences

NAMES = (demo.NOTHING, demo.SCRATCH, demo.START, demo.HEAD, demo.SERVER)


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """The demonstration with one round and one seed in place of 30 and three."""
    folder = tmp_path_factory.mktemp("demo")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        short = demo.FILE.replace("rounds = 30", "rounds = 2").replace("rounds = 10", "rounds = 2")
        patch.setattr(demo, "FILE", short.replace("epochs = 100", "epochs = 2"))
        result = CliRunner().invoke(app, ["demo", "--seeds", "1", "--jobs", "1"])
    assert result.exit_code == 0, result.output
    return folder, result.output


def test_it_writes_a_page_and_says_so(shown):
    folder, output = shown
    assert "open demo.html in a browser" in " ".join(output.split())
    page = (folder / "demo.html").read_text()
    assert all(name in page for name in NAMES)
    assert "Privacy costs" in page
    assert "19 trials on the same data chose their settings before" in page


def test_every_case_has_the_epsilon_that_it_promises(shown):
    rows = json.loads((shown[0] / "runs/demo/sweep/sweep.json").read_text())["rows"]
    found = {row["settings"]["case"]: row["epsilon"] for row in rows}
    assert list(found) == list(NAMES)
    assert set(map(float, found[demo.NOTHING].values())) == {float("inf")}
    for name in (demo.SCRATCH, demo.START, demo.HEAD):
        assert 1.9 < found[name]["public"] <= 2
    assert 7.9 < found[demo.SERVER]["server"] <= 8


def test_public_test_and_private_images_are_apart(shown):
    private, public = (np.load(shown[0] / f"runs/demo/{name}.npz") for name in ("private", "public"))
    sets = [{image.tobytes() for image in rows} for rows in (private["x_train"], public["x_train"], public["x_test"])]
    assert [len(rows) for rows in sets] == [3900, 100, 1000]
    assert not sets[0] & sets[1]
    assert not sets[1] & sets[2]
    assert not sets[0] & sets[2]
    assert (private["x_test"] == public["x_test"]).all()


def test_sentences_follow_the_figures():
    """Where a start or a tuning gives nothing, the sentence says so."""

    def row(*accuracies):
        return {"accuracies": accuracies, "epsilon": {"public": 2.0, "server": 80.0, "client": 2.0}}

    rows = dict(zip(NAMES, [row(0.9, 0.9), row(0.6, 0.62), row(0.7, 0.61), row(0.5, 0.5), row(0.4, 0.4)], strict=True))
    told = " ".join(demo_sentences(rows, [0.55, 0.55], names=NAMES))
    assert "Privacy costs 29.0 points: 90.0% without, 61.0% from scratch" in told
    assert "gives 4.5 points back on average" in told
    assert "tuning the head alone gives nothing back" in told
    assert "Without any private row it would be 55.0%" in told


def test_to_beat_is_to_be_better_in_each_seed_by_more_than_the_spread():
    assert beats([0.8, 0.81], [0.7, 0.71])
    assert not beats([0.8, 0.7], [0.7, 0.69])
    assert not beats([0.71, 0.72], [0.6, 0.71])


def test_a_second_demonstration_in_the_same_folder_waits_its_turn(shown, monkeypatch):
    monkeypatch.chdir(shown[0])
    with demo.prepared(Path("runs/demo")):
        result = CliRunner().invoke(app, ["demo", "--seeds", "1"])
    assert "Another demonstration is at work" in str(result.exception)
