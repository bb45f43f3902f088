"""Head first, then everything: what is trained, noised and sent in each phase, and that a cut run ends in the same bits."""

import json

import pytest
import torch
from safetensors.torch import load_file

import sordino
from sordino.core import SordinoError
from sordino.engine.plan import make_plan
from sordino.engine.run import run_experiment
from sordino.experiment import experiment
from sordino.models import build
from sordino.privacy.ledger import read_lines
from sordino.tuning.unified import Unified, switch_round

METHODS = {
    "client level": {"name": "dp-fedavg", "batch_size": 16},
    "example level": {"name": "dp-sgd", "batch_size": 16},
}


def unified(head_rounds, **changes):
    return {"tuning": {"name": "unified", "head_rounds": head_rounds}, "rounds": 5, **changes}


@pytest.fixture
def started(tiny, tmp_path):
    """The weights that every run of this table begins with."""
    sordino.run(tiny(rounds=1, method={"name": "fedavg", "learning_rate": 1e-30}), out=tmp_path / "start")
    return load_file(tmp_path / "start" / "model.safetensors")


class Cut(Exception):
    pass


def cut_after(rounds):
    def watch(moment):
        if moment.stage == "training" and moment.done == rounds:
            raise Cut

    return watch


@pytest.mark.parametrize(
    ("asked", "first"), [(0, 0), (3, 3), (5, 5), (0.0, 0), (0.25, 2), (0.5, 4), (0.75, 6), (1.0, 8)]
)
def test_head_rounds_are_a_number_or_a_share(asked, first):
    rounds = 5 if isinstance(asked, int) else 8
    net = build("mlp", shape=(1, 8, 8), classes=3)
    phases = Unified(head_rounds=asked).phases(net, rounds)
    assert switch_round(asked, rounds) == first
    assert [phase.first_round for phase in phases] == ([0, first] if 0 < first < rounds else [0])
    assert set(phases[0].trainable) == set(net.parts()["head"]) or first == 0
    assert len(phases[-1].trainable) == len(list(net.parameters())) or first == rounds


@pytest.mark.parametrize("asked", [-1, 6, -0.1, 1.5])
def test_a_switch_outside_the_run_is_refused(asked, tiny, tmp_path):
    with pytest.raises(SordinoError, match=f"but got {asked}"):
        sordino.run(tiny(**unified(asked)), out=tmp_path / "run")


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_the_body_moves_only_after_the_switch_and_only_then_is_sent(method, tiny, tmp_path, started):
    table = tiny(**unified(5, method=method))
    head_only = sordino.run(table, out=tmp_path / "head")
    weights = load_file(tmp_path / "head" / "model.safetensors")
    for name, value in weights.items():
        assert torch.equal(value, started[name]) == name.startswith("body."), name
    both = sordino.run(tiny(**unified(3, method=method)), out=tmp_path / "both")
    weights = load_file(tmp_path / "both" / "model.safetensors")
    assert all(not torch.equal(value, started[name]) for name, value in weights.items())
    head, everything = (phase["trained_parameters"] for phase in both["phases"])
    assert head_only["phases"] == [{"first_round": 0, "trained_parameters": head}]
    lines = read_lines(tmp_path / "both" / "ledger.jsonl")
    sent = [sum(len(line.participants) for line in lines if (line.round >= 3) == late) for late in (False, True)]
    assert both["bytes_up"] == 4 * (sent[0] * head + sent[1] * everything)


@pytest.mark.parametrize("end", [0, 5])
def test_a_switch_at_either_end_is_full_or_head_tuning(end, tiny, tmp_path):
    name = "full" if end == 0 else "head"
    one = sordino.run(tiny(**unified(end)), out=tmp_path / "unified")
    other = sordino.run(tiny(tuning={"name": name}, rounds=5), out=tmp_path / "plain")
    assert one["accuracy"] == other["accuracy"]
    assert (tmp_path / "unified" / "model.safetensors").read_bytes() == (
        tmp_path / "plain" / "model.safetensors"
    ).read_bytes()


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
@pytest.mark.parametrize("cut", [1, 2, 4])
def test_a_run_cut_in_any_phase_ends_in_the_same_bits(cut, method, tiny, tmp_path):
    table = experiment(tiny(**unified(2, method=method)))
    run_experiment(table, tmp_path / "whole")
    with pytest.raises(Cut):
        run_experiment(table, tmp_path / "cut", watch=cut_after(cut))
    run_experiment(table, tmp_path / "cut", resume=True)
    for name in ("model.safetensors", "ledger.jsonl", "metrics.jsonl"):
        assert (tmp_path / "cut" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name
    one, other = (json.loads((tmp_path / run / "summary.json").read_text()) for run in ("cut", "whole"))
    assert all(one[key] == other[key] for key in one if key != "seconds")


def test_both_phases_cost_the_same_and_the_plan_knows(tiny, tmp_path):
    """The price of a round depends on clip and noise, not on how many coordinates carry them."""
    method = {"name": "dp-sgd", "batch_size": 16}
    summary = sordino.run(tiny(**unified(2, method=method)), out=tmp_path / "run")
    planned = make_plan(experiment(tiny(**unified(2, method=method))))
    full = make_plan(experiment(tiny(rounds=5, method=method)))
    assert planned.epsilon == full.epsilon
    assert summary["epsilon"]["public"]["epsilon"] <= planned.epsilon["public"].epsilon * (1 + 1e-9)


def test_a_model_without_a_head_has_only_full_tuning(tiny, tmp_path, monkeypatch):
    from sordino.models import Net

    monkeypatch.setattr(Net, "parts", lambda net: {"body": [name for name, _ in net.named_parameters()], "head": []})
    with pytest.raises(SordinoError, match="model with a trainable head"):
        sordino.run(tiny(**unified(2)), out=tmp_path / "run")
