"""recommend reads public data alone, tries corners, and writes a file that can be planned."""

import json
import tomllib

import numpy as np
import pytest
from typer.testing import CliRunner

from sordino.cli import app
from sordino.core import SordinoError
from sordino.experiment import experiment
from sordino.recommend.corners import first_corners, second_corners
from sordino.recommend.stand_in import make_stand_in
from sordino.recommend.writing import as_file

FILE = """
rounds = 2
model = "logistic"
method = {{ name = "dp-fedavg", epochs = 1 }}
data = {{ source = "secret.csv", clients = 20 }}
privacy = {{ delta = 1e-3, expected_cohort = 10, noise_multiplier = 1.0 }}
{start}
"""


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "own.toml"
    path.write_text(FILE.format(start=""))
    return path


def test_it_recommends_without_the_private_file_and_with_its_evidence(file, tmp_path):
    """The private set of this file does not exist, so nothing can have read it."""
    arguments = ["recommend", str(file), "--epsilon", "3", "--proxy", "digits", "--seconds", "0", "--json"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, (result.output, result.exception)
    content = json.loads(result.output)
    text = (tmp_path / "own-recommended.toml").read_text()
    table = tomllib.loads(text)
    checked = experiment(table)
    assert checked.privacy.epsilon == 3.0
    assert checked.privacy.noise_multiplier is None
    assert checked.data.source == "secret.csv"
    assert "stand-in" not in json.dumps(table)
    assert content["recommended"] == content["tried"][0]["settings"]
    assert content["tried"] == sorted(content["tried"], key=lambda one: -one["accuracy"])
    assert "no private row was read" in text
    assert "The public start alone" in text
    assert "There was no time for" in text
    seeds = [len(row["accuracies"]) for row in content["trial"]]
    assert set(seeds) == {3}


def test_rows_of_starts_clients_and_tests_are_apart(file, tmp_path):
    table = tomllib.loads(file.read_text())
    make_stand_in(table, "digits", tmp_path / "out", folder=tmp_path)
    clients, start = (np.load(tmp_path / "out" / name) for name in ("stand-in.npz", "start.npz"))
    sets = [{row.tobytes() for row in rows} for rows in (clients["x_train"], start["x_train"], start["x_test"])]
    assert sum(map(len, sets)) == 1797
    assert len(set.union(*sets)) == 1797


def test_the_public_start_of_the_file_is_the_proxy_unless_one_is_named(file, tmp_path):
    with pytest.raises(SordinoError, match=r"no public \[start\] data; name a public set"):
        make_stand_in(tomllib.loads(file.read_text()), None, tmp_path / "out", folder=tmp_path)
    start = 'start = { name = "sam", data = { source = "digits", visibility = "public" } }'
    table = tomllib.loads(FILE.format(start=start))
    made = make_stand_in(table, None, tmp_path / "out", folder=tmp_path)
    assert made.real_start["name"] == made.search_start["name"] == "sam"
    assert made.real_start["data"] == {"source": "digits", "visibility": "public"}
    assert made.search_start["data"]["source"].endswith("start.npz")


def test_what_is_not_public_or_too_small_is_refused(file, tmp_path):
    table = tomllib.loads(file.read_text())
    with pytest.raises(SordinoError, match="which is the private one"):
        make_stand_in(table, "secret.csv", tmp_path / "out", folder=tmp_path)
    start = {"name": "standard", "data": {"source": "digits", "visibility": "private"}}
    with pytest.raises(SordinoError, match="marked private"):
        make_stand_in({**table, "start": start}, None, tmp_path / "out", folder=tmp_path)
    table["data"]["clients"] = 1000
    with pytest.raises(SordinoError, match="name a larger one"):
        make_stand_in(table, "digits", tmp_path / "out", folder=tmp_path)


def test_corners_reach_all_axes(file):
    table = tomllib.loads(file.read_text())
    first = first_corners({"name": "standard"})
    assert {json.dumps(case.settings["start"]) for case in first} == {'"scratch"', '{"name": "standard"}'}
    assert {case.settings["tuning"] for case in first} == {"full", "head"}
    around = second_corners(first[0], table)
    assert len({case.name for case in around}) == len(around)
    assert all(case.settings["start"] == {"name": "standard"} for case in around)
    assert {"dp-fedavgm", "dp-fedadam"} <= {case.settings.get("method", {}).get("name") for case in around}


def test_a_file_is_read_back_as_it_was_written():
    table = {
        "rounds": 3,
        "data": {"source": 'a "b"', "options": {"na": ["", "-"], "ä b": 1.5}, "test": None},
        "tuning": "head",
    }
    assert tomllib.loads(as_file(table, ["a", "", "b"])) == {
        "rounds": 3,
        "data": {"source": 'a "b"', "options": {"na": ["", "-"], "ä b": 1.5}},
        "tuning": {"name": "head"},
    }
