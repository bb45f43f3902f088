"""How often a model is evaluated where nobody says so: by counts alone, and told."""

import json

import pytest
import torch

import sordino
from sordino.engine import effort
from sordino.engine.effort import multiplications
from sordino.engine.record import RunRecord
from sordino.models import build
from sordino.tuning import Phase


@pytest.fixture
def nothing_is_cheap(monkeypatch):
    monkeypatch.setattr(effort, "CHEAP", 0)


def rare(tiny, **changes):
    """Two of eight clients with a step on 4 rows a round, and 359 test rows: evaluation costs more than training."""
    method = {"name": "dp-sgd", "batch_size": 4, "learning_rate": 0.1, "local_steps": 1}
    data = {"clients": 8, "partition": {"name": "iid"}}
    return tiny(rounds=200, method=method, data=data, privacy={"expected_cohort": 2}, **changes)


def evaluated(folder):
    """The rounds after which a run was evaluated."""
    return [json.loads(line)["round"] for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_evaluation_that_would_cost_more_than_a_quarter_of_the_training_is_rarer_and_told(tiny, nothing_is_cheap):
    said = sordino.plan(rare(tiny)).method_facts["evaluation"]
    # a round trains on 2 x 4 rows at three times the price of a tested one: 4 x 359 / 24 = 59.8
    assert said.startswith("4 times on 359 rows")
    assert "after every 60 rounds in place of 10, because it would cost more than a quarter of the training" in said
    assert "evaluate_every" in said


def test_a_run_is_evaluated_as_its_plan_says(tiny, tmp_path, nothing_is_cheap):
    table = rare(tiny) | {"rounds": 4}
    assert sordino.plan(table).method_facts["evaluation"].startswith("once on")
    sordino.run(table, out=tmp_path / "run")
    assert evaluated(tmp_path / "run") == [3]
    assert RunRecord(tmp_path / "run").read_experiment()["facts"]["evaluated_every"] == 4


def test_a_resumed_run_is_evaluated_as_it_was_begun(tiny, tmp_path, monkeypatch):
    class Stopped(Exception):
        pass

    def stop(done):
        if done.number == 2:
            raise Stopped

    table = rare(tiny) | {"rounds": 4}
    with pytest.raises(Stopped):
        sordino.Experiment(**table).run(out=tmp_path / "run", on_round=stop)
    assert RunRecord(tmp_path / "run").read_experiment()["facts"]["evaluated_every"] == 1
    monkeypatch.setattr(effort, "CHEAP", 0)
    sordino.Experiment(**table).run(out=tmp_path / "run", resume=True)
    assert evaluated(tmp_path / "run") == [0, 1, 2, 3]


def test_evaluation_that_nobody_waits_for_stays_as_it_was(tiny):
    assert "in place of" not in sordino.plan(rare(tiny)).method_facts["evaluation"]


def test_what_a_person_asked_for_stays(tiny, nothing_is_cheap):
    said = sordino.plan(rare(tiny, engine={"evaluate_every": 2})).method_facts["evaluation"]
    assert said.startswith("100 times") and "in place of" not in said


def test_charged_evaluation_keeps_its_number_and_its_price(tiny, monkeypatch):
    table = rare(tiny)
    table["data"] = {**table["data"], "test": {"name": "charged", "epsilon": 0.5}}
    usual = sordino.plan(table)
    monkeypatch.setattr(effort, "CHEAP", 0)
    assert sordino.plan(table).to_json() == usual.to_json()
    assert usual.tariff.evaluation.evaluations == 1


@pytest.mark.parametrize(
    ("model", "shape", "expected"),
    [
        ({"name": "mlp", "hidden": [8]}, (1, 4, 4), 16 * 8 + 8 + 8 * 3 + 3),
        ({"name": "logistic"}, (5,), 5 * 3 + 3),
    ],
    ids=["mlp", "logistic"],
)
def test_multiplications_are_counted_by_layers(model, shape, expected):
    settings = {key: value for key, value in model.items() if key != "name"}
    net = build(model["name"], shape=shape, classes=3, vocabulary=0, seed=0, **settings)
    names = tuple(name for name, _ in net.named_parameters())
    everything, head = (Phase(first_round=0, trainable=trainable) for trainable in (names, tuple(net.parts()["head"])))
    state = torch.get_rng_state()
    assert multiplications(net, everything, shape=shape, tokens=False) == expected
    assert multiplications(net, head, shape=shape, tokens=False) == (8 * 3 + 3 if model["name"] == "mlp" else expected)
    assert torch.equal(torch.get_rng_state(), state) and net.training


def test_a_convolution_multiplies_at_every_pixel():
    net = build("lenet5", shape=(3, 32, 32), classes=10, vocabulary=0, seed=0)
    names = tuple(name for name, _ in net.named_parameters())
    found = multiplications(net, Phase(first_round=0, trainable=names), shape=(3, 32, 32), tokens=False)
    first = next(module for module in net.modules() if isinstance(module, torch.nn.Conv2d))
    weights = first.weight.numel() + (0 if first.bias is None else first.bias.numel())
    assert found > weights * 28 * 28
