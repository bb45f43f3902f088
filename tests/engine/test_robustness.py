"""Robust accuracy and ρ, where the answer is known, and the two commands around them."""

import json
import math

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import sordino
from sordino.cli import app
from sordino.core import SordinoError
from sordino.data.evaluation_rows import Charged
from sordino.data.examples import IDENTITY, Examples
from sordino.data.source import SourceSettings, load
from sordino.engine.robustness import Subject, measure, open_subject
from sordino.models import build

START = {"name": "sam", "data": {"source": "mnist5k", "visibility": "public", "limit": 300}, "epochs": 2}


def subject(scale=1.0):
    """Two far clusters, one for each class, and a linear model that tells them apart."""
    inputs = torch.cat([torch.ones(50, 4), -torch.ones(50, 4)])
    labels = torch.cat([torch.ones(50), torch.zeros(50)]).long()
    net = build("logistic", shape=(4,), classes=2, bias=False)
    with torch.no_grad():
        net.head.weight.copy_(scale * torch.tensor([[-1.0], [1.0]]).expand(2, 4))
    return Subject(net=net, test=Examples(inputs=inputs, labels=labels, normalisation=IDENTITY), name="two clusters")


def test_robust_accuracy_is_the_probability_that_noise_leaves_the_sign():
    """The margin is 8 + N(0, 8 s²): right in every example or in none, by one coin for each draw."""
    found = measure(subject(), noise=(0.0, 2.0), draws=400).accuracies
    assert found[0.0] == [1.0]
    expected = 0.5 * (1 + math.erf(8 / math.sqrt(2 * 8 * 4)))
    share = sum(found[2.0]) / 400
    assert abs(share - expected) < 4 * math.sqrt(expected * (1 - expected) / 400)


def test_noise_is_the_same_for_every_model_and_leaves_it_as_it_was():
    one = subject()
    before = one.net.head.weight.clone()
    first, again = (measure(one, noise=(0.5,), draws=2, seed=3) for _ in range(2))
    assert first == again
    assert torch.equal(one.net.head.weight, before)


def test_rho_by_ascent_is_at_least_that_by_chance_and_scales_as_it_should():
    near, far = measure(subject(0.1)), measure(subject(2.0))
    assert near.rho_ascent >= near.rho_random > 0
    assert far.rho_ascent < near.rho_ascent
    # p' = p(1-p) at the margin 0.8 for a unit step along the steepest direction, which moves the margin by √8, and both
    # probabilities by the same amount
    p = 1 / (1 + math.exp(-0.8))
    assert near.rho_ascent == pytest.approx(math.sqrt(8) * p * (1 - p) * math.sqrt(2), rel=0.02)


def test_three_rows_are_enough():
    few = subject()
    few = Subject(net=few.net, test=few.test.take(torch.tensor([0, 1, 99])), name="three rows")
    found = measure(few, noise=(0.0,))
    assert found.accuracies[0.0] == [1.0]
    assert found.rho_ascent >= found.rho_random > 0


def test_bad_noise_is_refused():
    with pytest.raises(SordinoError, match="noise of 0 or more"):
        measure(subject(), noise=(-1.0,))


def test_pretrain_then_robustness_on_the_command_line(tiny, tmp_path):
    table = tiny(rounds=1, start=START)
    sordino.run(table, out=tmp_path / "run")
    file = tmp_path / "one.toml"
    file.write_text(
        'rounds = 1\ndata.source = "digits"\nmodel = {name = "mlp", hidden = [8]}\nmethod.name = "dp-fedavg"\n'
        'start = {name = "sam", epochs = 2, data = {source = "mnist5k", visibility = "public", limit = 300}}\n'
    )
    runner = CliRunner()
    done = runner.invoke(app, ["pretrain", str(file), "--out", str(tmp_path / "start"), "--json"])
    assert done.exit_code == 0, done.output
    record = json.loads(done.output)
    assert record["kind"] == "sam"
    assert 0 <= record["public_test_accuracy"] <= 1
    assert (tmp_path / "start" / "weights.safetensors").exists()
    page = tmp_path / "page.html"
    for folder in ("start", "run"):
        shown = runner.invoke(
            app,
            [
                "robustness",
                str(tmp_path / folder),
                "--noise",
                "0,0.1",
                "--draws",
                "2",
                "--json",
                "--figure",
                str(page),
            ],
        )
        assert shown.exit_code == 0, shown.output
        assert [row["noise"] for row in json.loads(shown.output)[0]["robust_accuracy"]] == [0.0, 0.1]
        assert page.read_text().startswith("<!doctype html>")
    assert "ρ ascent" in runner.invoke(app, ["robustness", str(tmp_path / "start"), "--noise", "0"]).output


def test_pretrain_refuses_a_start_that_trains_nothing(tiny, tmp_path):
    from sordino.engine.pretraining import pretrain
    from sordino.experiment import experiment

    with pytest.raises(SordinoError, match="trains nothing; name one of dpadapter, sam, standard"):
        pretrain(experiment(tiny()), tmp_path, folder=tmp_path, progress=lambda done, total: None)


CHARGED = {"test": {"name": "charged", "epsilon": 1.0}}
CHARGED_ROWS = Charged(epsilon=1.0)
"""A source that is read like this has all its rows to train on, in the order of its file."""


def some_digits(path, rows, test=()):
    """A file of these digits, with a test split if some are given for it."""
    whole = load(SourceSettings(source="digits", visibility="public"), test=CHARGED_ROWS).train
    parts = {"train": rows, "test": test} if len(test) else {"train": rows}
    arrays = {f"x_{name}": whole.inputs[chosen, 0].numpy() for name, chosen in parts.items()}
    np.savez(path, **arrays, **{f"y_{name}": whole.labels[chosen].numpy() for name, chosen in parts.items()})
    return str(path)


@pytest.fixture
def measured_on(tiny, tmp_path):
    """The test rows of a run on these data, where --data names a set; and how `sordino robustness` refuses it."""

    def measure_on(named, **data):
        if not (tmp_path / "run").exists():
            sordino.run(tiny(rounds=1, data=data), out=tmp_path / "run")
        done = CliRunner().invoke(
            app, ["robustness", str(tmp_path / "run"), "--data", str(named), "--noise", "0", "--draws", "1"]
        )
        if done.exit_code:
            raise done.exception
        return open_subject(tmp_path / "run", str(named)).test

    return measure_on


def test_private_rows_are_not_measured_for_free(measured_on, tmp_path):
    """Where evaluation is charged, all rows of the set are private, and it cannot be named again, nor a copy of some of it."""
    with pytest.raises(SordinoError, match="--data names 'digits', whose rows are private in this run"):
        measured_on("digits", **CHARGED)
    copy = some_digits(tmp_path / "copy.npz", [3, 4, 5], test=[6])
    with pytest.raises(SordinoError, match="--data names 'copy', of which rows to test on are also private rows"):
        measured_on(copy)
    assert len(measured_on("mnist5k")) == 1000


def test_rows_beyond_a_limit_are_private_too(measured_on, tmp_path):
    copy = some_digits(tmp_path / "copy.npz", [3], test=range(1797))
    with pytest.raises(SordinoError, match="also private rows of this run"):
        measured_on(copy, options={"limit": 100})
    own = measured_on("digits")
    is_own = {row.tobytes() for row in own.inputs.numpy()}
    whole = load(SourceSettings(source="digits", visibility="public"), test=CHARGED_ROWS).train.inputs.numpy()
    public, private = (
        [at for at, row in enumerate(whole) if (row.tobytes() in is_own) == side] for side in (True, False)
    )
    assert len(measured_on(some_digits(tmp_path / "public.npz", [3], test=public))) == len(own)
    for row in private[:3]:
        with pytest.raises(SordinoError, match="also private rows of this run"):
            measured_on(some_digits(tmp_path / "one.npz", [3], test=[*public, row]))


def test_the_runs_own_test_rows_may_be_named(measured_on, tmp_path):
    """Rows that are set aside count as public, and are the same whichever options the set is read with."""
    named = measured_on("digits", options={"test_fraction": 0.3, "rows": [0, 900]})
    assert torch.equal(named.inputs, open_subject(tmp_path / "run").test.inputs)
    assert len(named) == 270


def test_the_public_part_of_a_set_may_be_named(measured_on):
    named = measured_on("digits", **CHARGED, options={"public_share": 0.3})
    public = load(SourceSettings(source="digits", visibility="public", public_share=0.3), test=CHARGED_ROWS).train
    rows = {row.tobytes() for row in public.inputs.numpy()}
    assert all(row.tobytes() in rows for row in named.inputs.numpy())


def test_a_test_split_of_the_files_own_may_be_named(measured_on, tmp_path):
    """As [data] test = { source = ... } may name the training set, if it has a test split."""
    source = some_digits(tmp_path / "set.npz", range(300), test=range(300, 340))
    assert len(measured_on(source, source=source, **CHARGED)) == 40


def test_rows_of_that_split_that_are_trained_on_are_refused(measured_on, tmp_path):
    source = some_digits(tmp_path / "set.npz", range(300), test=range(299, 340))
    with pytest.raises(SordinoError, match="also private rows of this run"):
        measured_on(source, source=source, **CHARGED)


def test_the_test_source_of_the_run_may_be_named(measured_on, tmp_path):
    other = some_digits(tmp_path / "other.npz", range(300, 400))
    data = {"source": some_digits(tmp_path / "set.npz", range(300)), "test": {"source": other}}
    assert len(measured_on(other, **data)) == 100
    with pytest.raises(SordinoError, match="--data names 'set', whose rows are private"):
        measured_on(tmp_path / "set.npz")


def test_a_public_run_is_measured_on_whatever_is_named(measured_on, tmp_path):
    copy = some_digits(tmp_path / "copy.npz", [3], test=range(100))
    assert len(measured_on(copy, visibility="public")) == 100
    assert len(measured_on("digits")) == 359


def test_what_is_named_is_read_as_the_run_reads_its_own(measured_on, tmp_path):
    """With the run's constants and size of images, and from the folder that the command is given in."""
    options = {"mean": [0.25], "std": [0.5], "resize": 6}
    named = measured_on("mnist5k", options=options)
    assert named.normalisation == open_subject(tmp_path / "run").test.normalisation
    assert tuple(named.inputs.shape[1:]) == (1, 6, 6)


def test_rows_of_a_table_are_found_as_the_run_reads_them(measured_on, tmp_path):
    """A copy in another order of columns; with the defaults for tables it would be read otherwise."""
    draw = np.random.default_rng(1)
    ages, tests = draw.integers(20, 80, size=120), draw.normal(size=120)
    lines = [f"{age},{test:.6f},{'yes' if test > 0 else 'no'}" for age, test in zip(ages, tests, strict=True)]
    turned = [",".join(reversed(line.split(","))) for line in lines]
    for name, header, rows in (
        ("own", "age,test,ill", lines[:80]),
        ("copy", "ill,test,age", turned[70:80]),
        ("new", "ill,test,age", turned[80:]),
    ):
        (tmp_path / f"{name}.csv").write_text("\n".join([header, *rows]) + "\n")
    columns = {"age": {"kind": "number", "low": 20, "high": 80}, "test": {"kind": "number", "low": -4, "high": 4}}
    options = {"label_column": "ill", "classes": ["no", "yes"], "columns": columns}
    data = {"source": str(tmp_path / "own.csv"), "options": options, **CHARGED}
    with pytest.raises(SordinoError, match="--data names 'copy', of which rows to test on are also private rows"):
        measured_on(tmp_path / "copy.csv", **data)
    assert len(measured_on(tmp_path / "new.csv")) == 8
