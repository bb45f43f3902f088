"""Means for missing values: bought through the door, in the plan and the ledger, and no dearer or cheaper than booked."""

import json

import numpy as np
import pandas
import pytest
import torch
from scipy.stats import kstest

import sordino
from sordino.audit.self_test.benches import _table
from sordino.audit.self_test.running import REAL, try_twin
from sordino.audit.watched import watched_federation
from sordino.core import Private, SordinoError
from sordino.data.examples import IDENTITY, Examples
from sordino.engine.asking import ask_clients
from sordino.engine.bought_means import NOTHING, MeanSurvey
from sordino.engine.plan import make_plan
from sordino.engine.resolved import resolve
from sordino.engine.run import _Run
from sordino.experiment import experiment
from sordino.models import build
from sordino.privacy.noise import SeededNoise
from sordino.privacy.streams import stream_id


def people(seed: int, rows: int) -> pandas.DataFrame:
    rng = np.random.default_rng(seed)
    age, weight = rng.normal(70, 8, rows).clip(0, 100).round(3), rng.random(rows).round(6)
    frame = pandas.DataFrame(
        {"age": age.astype(str), "weight": weight, "label": np.where(age + 20 * weight > 80, "b", "a")}
    )
    frame.loc[rng.random(rows) < 0.3, "age"] = "NA"
    return frame


AGE = {"kind": "number", "low": 0, "high": 100, "missing": "bought"}


@pytest.fixture
def aged(tmp_path):
    people(1, 600).to_csv(tmp_path / "train.csv", index=False)
    people(2, 100).to_csv(tmp_path / "test.csv", index=False)

    def make(*, age=AGE, price=2.0, **changes):
        return {
            "name": "ages",
            "rounds": 3,
            "method": {"name": "dp-sgd", "batch_size": 32, "learning_rate": 0.5},
            "model": {"name": "mlp", "hidden": [4]},
            "privacy": {"noise_multiplier": 1.0, "delta": 1e-3, "view": "server"},
            "data": {
                "source": str(tmp_path / "train.csv"),
                "clients": 2,
                "test": {"source": str(tmp_path / "test.csv")},
                "options": {
                    "classes": ["a", "b"],
                    "columns": {"age": age, "weight": {"kind": "number", "low": 0, "high": 1}},
                    "bought_epsilon": price,
                },
            },
            **changes,
        }

    return make


def test_a_mean_is_bought_booked_and_used(aged, tmp_path):
    summary = sordino.run(aged(), out=tmp_path / "run")
    mean = json.loads((tmp_path / "run" / "prediction.json").read_text())["preparation"]["columns"]["age"]["missing"]
    ages = pandas.to_numeric(people(1, 600)["age"], errors="coerce")
    assert abs(mean - ages.mean()) < 3, "the middle of the range is 20 away"
    lines = [json.loads(line) for line in (tmp_path / "run" / "ledger.jsonl").read_text().splitlines()]
    bought = [line for line in lines if line.get("label") == "statistic"]
    assert len(bought) == 2 * 2 and {line["clip_bound"] for line in bought} == {NOTHING}
    assert {line["noise_multiplier"] for line in bought} == {2 / 2.0}
    plan = make_plan(experiment(aged()))
    assert "the mean of age" in plan.method_facts["bought"]
    assert summary["epsilon"]["server"]["epsilon"] == pytest.approx(plan.epsilon["server"].epsilon, rel=1e-6)
    free = make_plan(experiment(aged(age={**AGE, "missing": 70}, price=None)))
    assert plan.epsilon["server"].epsilon > free.epsilon["server"].epsilon + 0.5
    test = people(2, 100)
    called = sordino.load(tmp_path / "run").predict(test)
    assert np.mean(called == test["label"].to_numpy()) == pytest.approx(summary["accuracy"], abs=1e-12)


def test_a_run_that_goes_on_keeps_the_mean_it_bought(aged, tmp_path, monkeypatch):
    sordino.run(aged(), out=tmp_path / "whole")
    right = _Run._round

    def cut(self, number):
        if number == 1:
            raise KeyboardInterrupt
        right(self, number)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(_Run, "_round", cut)
        sordino.run(aged(), out=tmp_path / "cut")
    sordino.run(aged(), out=tmp_path / "cut", resume=True)
    for name in ("model.safetensors", "prediction.json"):
        assert (tmp_path / "cut" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_one_row_moves_a_number_by_a_half_and_a_replaced_one_by_one():
    survey = MeanSurvey(places={"a": 0}, noise_multiplier=1.0)

    class Context:
        size = 5

    def numbers(values):
        own = Examples(
            inputs=torch.tensor(values)[:, None],
            labels=torch.zeros(len(values), dtype=torch.int64),
            normalisation=IDENTITY,
        )
        return survey.measure(torch.zeros(0), own, Context())

    nan, strange = float("nan"), [-1.0, 1.0, 0.3, float("nan"), 50.0, float("inf")]
    for row in strange:
        whole, without = numbers([0.1, nan, -0.7, 0.9, row]), numbers([0.1, nan, -0.7, 0.9])
        assert all(abs(whole[name] - without[name]) <= survey.bound(name, 5).moves for name in survey.names)
        for other in strange:
            changed = numbers([0.1, nan, -0.7, 0.9, other])
            assert all(abs(whole[name] - changed[name]) <= 2 * survey.bound(name, 5).moves for name in survey.names)


def test_noise_is_laplace_of_the_booked_scale():
    """Neither less, which would break the promise, nor more, which would waste it."""
    survey, table = (
        MeanSurvey(places={"a": 0}, noise_multiplier=3.0),
        _table({"name": "dp-sgd", "batch_size": "full"}, clients=1),
    )
    net = build("logistic", shape=(2,), classes=2, seed=1)
    own = Examples(inputs=torch.ones(20, 2), labels=torch.ones(20, dtype=torch.int64), normalisation=IDENTITY)
    with watched_federation(
        table,
        resolve(table).method,
        [Private(own)],
        sizes=[20],
        features=2,
        watch=lambda *seen: None,
        source=lambda client: SeededNoise(stream_id(8, client)),
        net=net,
    ) as federation:
        start = federation.space.read(net)
        found = [ask_clients(federation, survey, start)["filled of a"][0] for _ in range(500)]
    assert kstest((np.array(found) - 20) / (3.0 * NOTHING), "laplace").pvalue > 1e-3


@pytest.mark.parametrize(
    "twin", [REAL, "statistics without noise", "statistics half covered", "absent rows count nothing"]
)
def test_the_audit_passes_and_catches_broken_twins(twin):
    assert try_twin(twin, "bought means").right


WRONG = {
    "no price": ({"price": None}, "missing = 'bought', which has a price; set bought_epsilon"),
    "a price for nothing": ({"age": {**AGE, "missing": 3}}, "bought_epsilon should be above 0, and pay for columns"),
    "no bounds": ({"age": {"kind": "number", "missing": "bought"}}, "buys a mean, which public bounds must hold"),
    "another word": ({"age": {**AGE, "missing": "mean"}}, "missing should be"),
    "whole clients": (
        {"method": "dp-fedavg"},
        "is priced for single rows, but method 'dp-fedavg' protects whole clients",
    ),
    "beyond the budget": (
        {"privacy": {"epsilon": 1.5, "delta": 1e-3, "view": "server"}},
        "cost ε = 2, but .* is 1.5 and must leave some for training",
    ),
    "a frozen body": ({"tuning": "head"}, "needs the rows themselves, but this tuning keeps what a frozen body"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_bought_is_refused_by_the_plan(aged, case):
    changes, sentence = WRONG[case]
    with pytest.raises(SordinoError, match=sentence):
        make_plan(experiment(aged(**changes)))
