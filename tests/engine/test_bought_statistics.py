"""Means and spreads of columns: bought through the door, in the plan and the ledger, and no dearer or cheaper than booked."""

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
from sordino.data.columns import Number
from sordino.data.examples import IDENTITY, Examples
from sordino.engine.asking import ask_clients
from sordino.engine.bought_statistics import _made_of
from sordino.engine.bought_survey import NOTHING, BoughtSurvey
from sordino.engine.plan import make_plan
from sordino.engine.resolved import resolve
from sordino.engine.run import Run
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
SCALED = {**AGE, "scaling": "bought"}
COLUMN = Number(low=0.0, high=1.0, missing="bought", scaling="bought")
NUMBERS = ["total", "squares", "filled"]


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


def test_mean_and_spread_are_bought_booked_and_scale_rows_and_predictions(aged, tmp_path):
    summary = sordino.run(aged(age=SCALED, price=6.0), out=tmp_path / "run")
    prepared = json.loads((tmp_path / "run" / "prediction.json").read_text())["preparation"]["normalisation"]
    ages = pandas.to_numeric(people(1, 600)["age"], errors="coerce")
    assert abs(50 * (1 + prepared["mean"][0]) - ages.mean()) < 3
    assert 50 * prepared["std"][0] == pytest.approx(ages.std(), rel=0.5), "bounds alone would leave 50"
    assert (prepared["mean"][1], prepared["std"][1]) == (0.0, 1.0), "weight is scaled by its bounds"
    lines = [json.loads(line) for line in (tmp_path / "run" / "ledger.jsonl").read_text().splitlines()]
    bought = [line for line in lines if line.get("label") == "statistic"]
    assert len(bought) == 3 * 2 and {line["noise_multiplier"] for line in bought} == {3 / 6.0}
    plan = make_plan(experiment(aged(age=SCALED, price=6.0)))
    assert (
        "the mean of age, for missing values and the mean and the spread of age, to scale by: ε 6"
        in (plan.method_facts["bought"])
    )
    assert summary["epsilon"]["server"]["epsilon"] == pytest.approx(plan.epsilon["server"].epsilon, rel=1e-6)
    test = people(2, 100)
    called = sordino.load(tmp_path / "run").predict(test)
    assert np.mean(called == test["label"].to_numpy()) == pytest.approx(summary["accuracy"], abs=1e-12)


def test_a_column_without_missing_values_buys_two_numbers(aged, tmp_path):
    weight = {"kind": "number", "low": -9, "high": 11, "scaling": "bought"}
    table = aged(age={**AGE, "missing": 70}, price=4.0, rounds=1)
    table["data"]["options"]["columns"]["weight"] = weight
    sordino.run(table, out=tmp_path / "run")
    prepared = json.loads((tmp_path / "run" / "prediction.json").read_text())["preparation"]["normalisation"]
    weights = people(1, 600)["weight"]
    assert 1 + 10 * prepared["mean"][1] == pytest.approx(weights.mean(), abs=0.2)
    assert 10 * prepared["std"][1] < 1.5, "one number that the bounds leave at 10"
    lines = (tmp_path / "run" / "ledger.jsonl").read_text().splitlines()
    assert sum(json.loads(line).get("label") == "statistic" for line in lines) == 2 * 2


def test_a_spread_below_its_own_noise_counts_as_that_noise():
    sums = {"total of a": 50.0, "squares of a": -3.0}
    assert _made_of(sums, "a", rows=100, noise=4.0) == (0.0, pytest.approx(0.2))
    assert _made_of({**sums, "squares of a": 36.0}, "a", rows=100, noise=4.0) == (0.0, pytest.approx(0.6))
    assert _made_of({**sums, "filled of a": 0.3}, "a", rows=100, noise=4.0) == (0.0, 1.0), "nothing is known"


@pytest.mark.parametrize("age", [AGE, SCALED], ids=["filled", "scaled"])
def test_a_run_that_goes_on_keeps_what_it_bought(aged, tmp_path, monkeypatch, age):
    sordino.run(aged(age=age), out=tmp_path / "whole")
    right = Run._round

    def cut(self, number):
        if number == 1:
            raise KeyboardInterrupt
        right(self, number)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Run, "_round", cut)
        sordino.run(aged(age=age), out=tmp_path / "cut")
    sordino.run(aged(age=age), out=tmp_path / "cut", resume=True)
    for name in ("model.safetensors", "prediction.json"):
        assert (tmp_path / "cut" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_one_row_moves_a_number_by_a_half_and_a_replaced_one_by_one():
    survey = BoughtSurvey(columns={"a": COLUMN}, places={"a": 0}, noise_multiplier=1.0)
    assert survey.names == [f"{what} of a" for what in NUMBERS]

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


@pytest.mark.parametrize("what", NUMBERS)
def test_noise_is_laplace_of_the_booked_scale(what):
    """Neither less, which would break the promise, nor more, which would waste it."""
    survey, table = (
        BoughtSurvey(columns={"a": COLUMN}, places={"a": 0}, noise_multiplier=3.0),
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
        found = [ask_clients(federation, survey, start)[f"{what} of a"][0] for _ in range(500)]
    assert kstest((np.array(found) - 20) / (3.0 * NOTHING), "laplace").pvalue > 1e-3


@pytest.mark.parametrize(
    "twin", [REAL, "statistics without noise", "statistics half covered", "absent rows count nothing"]
)
def test_the_audit_passes_and_catches_broken_twins(twin):
    assert try_twin(twin, "bought means").right


@pytest.mark.parametrize("twin", [REAL, "squares beyond the bounds", "statistics half covered"])
def test_the_audit_of_spreads_passes_and_catches_broken_twins(twin):
    assert try_twin(twin, "bought spreads").right


WRONG = {
    "no price": ({"price": None}, "missing = 'bought', which has a price; set bought_epsilon"),
    "a price for nothing": (
        {"age": {**AGE, "missing": 3}},
        "bought_epsilon should be above 0, and pay for columns with missing or scaling",
    ),
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
    "no price for a scale": (
        {"age": {**SCALED, "missing": 3}, "price": None},
        "columns.age has scaling = 'bought', which has a price; set bought_epsilon",
    ),
    "a scale without bounds": (
        {"age": {"kind": "number", "missing": 3, "scaling": "bought"}},
        "buys a mean and a spread, which public bounds must hold",
    ),
    "another scale": ({"age": {**AGE, "scaling": "std"}}, "scaling should be"),
    "client processes": (
        {"age": {**SCALED, "missing": 3}, "engine": {"name": "process"}},
        "scaling = 'bought' works in simulations alone, but .* is 'process'; leave scaling out of columns.age",
    ),
    "nodes": ({"engine": {"name": "flower"}}, "missing = 'bought' works in simulations alone, but .* is 'flower'"),
    "a frozen body": ({"tuning": "head"}, "needs the rows themselves, but this tuning keeps what a frozen body"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_bought_is_refused_by_the_plan(aged, case):
    changes, sentence = WRONG[case]
    with pytest.raises(SordinoError, match=sentence):
        make_plan(experiment(aged(**changes)))


def test_constants_for_all_columns_do_not_go_with_bought_ones(aged):
    table = aged()
    table["data"]["options"]["mean"] = [0.5]
    with pytest.raises(SordinoError, match=r"columns\.age buys statistics, but mean, std or scale"):
        make_plan(experiment(table))
