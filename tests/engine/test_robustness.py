"""Robust accuracy and ρ, where the answer is known, and the two commands around them."""

import json
import math

import pytest
import torch
from typer.testing import CliRunner

import sordino
from sordino.cli import app
from sordino.core import SordinoError
from sordino.data.examples import IDENTITY, Examples
from sordino.engine.robustness import Subject, measure
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
