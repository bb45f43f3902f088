"""Accuracy on rows that stay private: charged, in the plan, the same after a crash, and refused where it cannot be paid."""

import itertools
import json
import math
from collections import Counter

import pytest
import torch

import sordino
from sordino.core import SordinoError
from sordino.engine.dealing import federate
from sordino.engine.evaluate import correct
from sordino.engine.plan import make_plan
from sordino.engine.resolved import resolve
from sordino.engine.run import run_experiment
from sordino.engine.setup import prepare
from sordino.experiment import experiment
from sordino.models.weights import load_weights
from sordino.pretrain.file import read_weights
from sordino.privacy.accounting import spent
from sordino.privacy.door import Permit
from sordino.privacy.ledger import read_lines

STEPS = {"name": "dp-sgd", "batch_size": 32, "learning_rate": 0.5}
THREE = {"clients": 3, "partition": {"name": "iid"}}
KINDS = {
    "central": ({}, {"noise": "central"}),
    "distributed": ({}, {"noise": "distributed"}),
    "local": ({}, {"noise": "local", "view": "server", "epsilon": 40.0}),
    "steps": ({"method": STEPS, "data": THREE}, {"sampler": "everyone", "expected_cohort": None}),
    "one place": ({"method": {**STEPS, "where": "one-place"}}, {}),
}
FREE = {"epsilon": None, "noise_multiplier": 1.0}
"""Noise that was set by hand, so that there is no budget to pass."""


class Cut(Exception):
    pass


@pytest.fixture
def charged(tiny):
    """A table whose target is ε = 8, of which evaluation gets 1."""

    def table(kind="central", *, test=None, data=None, privacy=None, **changes):
        others, own = KINDS[kind]
        spread = {**others.get("data", {}), **(data or {})}
        return tiny(
            **{
                "rounds": 3,
                **others,
                **changes,
                "data": {"test": {"name": "charged", "epsilon": 1.0, **(test or {})}, **spread},
            },
            privacy={"epsilon": 8.0, "noise_multiplier": None, **own, **(privacy or {})},
        )

    return table


def lines_of(folder, label):
    return [line for line in read_lines(folder / "ledger.jsonl") if line.label == label]


def paid(lines, client, view):
    events = Counter()
    for line in lines:
        if client in line.participants:
            events.update(charge.event for charge in line.charges if charge.view == view)
    return events


@pytest.mark.parametrize(
    ("kind", "neighbours"),
    [
        *((kind, "zero-out") for kind in KINDS),
        ("central", "replace-one"),
        ("distributed", "replace-one"),
        ("steps", "replace-one"),
    ],
)
def test_evaluation_is_charged_and_the_total_is_the_target(kind, neighbours, charged, tmp_path):
    table = charged(kind, engine={"evaluate_every": 2}, privacy={"neighbours": neighbours})
    planned = make_plan(experiment(table))
    summary = sordino.run(table, out=tmp_path / "run")
    privacy = experiment(table).privacy
    view, lines = privacy.view, lines_of(tmp_path / "run", "evaluation")
    assert sorted({line.round for line in lines}) == [1, 2]
    delta = privacy.delta if kind == "distributed" else 0.0
    for client in range(summary["clients"]):
        assert sum(client in line.participants for line in lines) == 2
        own = spent(paid(lines, client, view), delta=delta, neighbours=neighbours, precise=True).epsilon
        assert 0.99 < own <= 1.0 + 1e-9, "all evaluations together cost what the setting says"
    for each in ("public", "server", "client"):
        assert planned.epsilon[each].epsilon == pytest.approx(summary["epsilon"][each]["epsilon"], rel=1e-9)
    assert 0.99 * privacy.epsilon <= planned.epsilon[view].epsilon <= privacy.epsilon
    free = make_plan(experiment({**table, "data": {**table["data"], "test": "public-split"}}))
    if table["method"]["name"] == "dp-fedavg":
        assert summary["noise_multiplier"] > free.tariff.noise_multiplier, "training gets what evaluation leaves"


@pytest.mark.parametrize("kind", KINDS)
def test_every_view_is_priced_by_what_it_sees(kind, charged, tmp_path):
    sordino.run(charged(kind, rounds=1, privacy=FREE), out=tmp_path / "run")
    line = lines_of(tmp_path / "run", "evaluation")[0]
    multiplier = {charge.view: getattr(charge.event, "noise_multiplier", 0.0) for charge in line.charges}
    drawn, owner = line.noise_multiplier, line.owner
    expected = {
        "central": ("server", {"public": drawn, "client": drawn, "server": 0.0}),
        "local": ("each client", {"public": drawn, "client": drawn, "server": drawn}),
        "distributed": (
            "each client",
            {"public": drawn * 12**0.5, "client": drawn * 11**0.5, "server": drawn},
        ),
        "steps": ("client 0", {"public": drawn, "client": drawn, "server": drawn}),
        "one place": ("client 0", {"public": drawn, "client": drawn, "server": 0.0}),
    }[kind]
    assert (owner, {view: pytest.approx(value) for view, value in expected[1].items()}) == (expected[0], multiplier)
    assert {charge.whom for charge in line.charges} == {"participants"}
    assert (line.clip_bound, line.mechanism) == (0.5, "gaussian" if kind == "distributed" else "laplace")


@pytest.mark.parametrize("kind", KINDS)
def test_but_for_its_noise_it_is_the_accuracy_on_held_out_rows(kind, charged, tmp_path, monkeypatch):
    right = Permit._noise
    monkeypatch.setattr(Permit, "_noise", lambda self, *given: right(self, *given) * (self.grant.label != "evaluation"))
    table = charged(kind, test={"fraction": 0.3}, privacy=FREE)
    summary = sordino.run(table, out=tmp_path / "run")
    checked = experiment(table)
    federated = federate(resolve(checked))
    setup = prepare(resolve(checked), folder=tmp_path, progress=lambda done, total: None)
    load_weights(setup.whole, read_weights(tmp_path / "run" / "model.safetensors"), origin="the run")
    source, held = federated.source, federated.held_out
    right = correct(setup.whole, source.train.take(torch.from_numpy(held.indices)), torch.device("cpu")).double()
    if kind in ("steps", "one place"):
        truth = float(right.mean())
    else:
        truth = sum(float(share.mean()) for share in right.split(held.sizes.tolist())) / len(held.sizes)
    assert summary["accuracy"] == pytest.approx(truth, abs=1e-12)
    assert 0 < truth < 1


@pytest.mark.parametrize("kind", ["central", "steps"])
def test_no_row_is_both_trained_and_tested_on(kind, charged):
    table = experiment(charged(kind))
    federated = federate(resolve(table))
    trained, tested = set(federated.partition.indices.tolist()), set(federated.held_out.indices.tolist())
    assert not trained & tested
    assert len(trained) + len(tested) == len(federated.source.train) == 1797
    assert (federated.held_out.sizes >= 1).all()
    assert make_plan(table).tariff.sizes == federated.sizes


def test_metrics_and_summary_say_that_the_accuracy_is_noisy(charged, tmp_path):
    summary = sordino.run(charged(rounds=6), out=tmp_path / "run")
    (row,) = map(json.loads, (tmp_path / "run" / "metrics.jsonl").read_text().splitlines())
    assert (row["round"], row["auroc"], row["accuracy_charged"]) == (5, None, True)
    assert row["accuracy_noise_deviation"] == pytest.approx(2**0.5 * 0.5 / 12)
    for key in ("accuracy", "auroc", "accuracy_charged", "accuracy_noise_deviation"):
        assert summary[key] == row[key]
    assert row["epsilon"] == pytest.approx(summary["epsilon"]["public"]["epsilon"], rel=1e-2)
    assert not summary["epsilon"]["public"]["because"].startswith("evaluation"), "the reason is that of the training"


def test_a_noisy_accuracy_stays_between_nothing_and_all(charged, tmp_path):
    seen = {
        sordino.run(charged(test={"epsilon": 0.01}, rounds=1, seed=seed), out=tmp_path / str(seed))["accuracy"]
        for seed in (0, 1, 6, 8)
    }
    assert seen == {0.0, 1.0}


def test_more_evaluations_share_the_same_epsilon(charged):
    once, often = (make_plan(experiment(charged(rounds=4, engine={"evaluate_every": every}))) for every in (0, 1))
    assert once.tariff.evaluation.evaluations == 1
    assert often.tariff.evaluation.evaluations == 4
    assert often.tariff.evaluation.deviation(0) == pytest.approx(4 * once.tariff.evaluation.deviation(0))


def test_a_choice_and_evaluations_are_paid_from_one_budget(charged, tmp_path):
    table = charged(
        "steps",
        tuning={"name": "auto", "epsilon": 0.5},
        method={"name": "dp-sgd", "batch_size": "full", "learning_rate": 0.2},
        privacy={"epsilon": 2.0, "neighbours": "replace-one"},
    )
    summary = sordino.run(table, out=tmp_path / "run")
    labels = Counter(line.label for line in read_lines(tmp_path / "run" / "ledger.jsonl"))
    assert labels == {"statistic": 6, "steps": 9, "evaluation": 3}
    assert 0.99 * 2.0 <= summary["epsilon"]["public"]["epsilon"] <= 2.0


def test_a_frozen_body_is_evaluated_by_its_cached_outputs(charged, tmp_path):
    whole, head = (
        sordino.run(charged(tuning={"name": name}, privacy=FREE), out=tmp_path / name) for name in ("full", "head")
    )
    assert head["trained_parameters"] < whole["trained_parameters"]
    assert head["accuracy_charged"]


def test_clients_with_budgets_of_their_own_pay_from_them(charged, tmp_path):
    budgets = [4.0 + 4 * (client % 2) for client in range(12)]
    local = {"client_epsilon": budgets, "epsilon": None, "sampler": "everyone", "expected_cohort": None}
    summary = sordino.run(charged("local", privacy=local), out=tmp_path / "run")
    each = summary["epsilon"]["server"]["per_client"]
    assert all(0.99 * budgets[int(client)] <= epsilon <= budgets[int(client)] for client, epsilon in each.items())


def cut_at_release(patch, number):
    """Stop as if the power failed after so many noisy values of evaluations were drawn."""
    right, drawn = Permit.release, itertools.count(1)

    def release(self, *given, **named):
        released = right(self, *given, **named)
        if self.grant.label == "evaluation" and next(drawn) == number:
            raise Cut
        return released

    patch.setattr(Permit, "release", release)


@pytest.mark.parametrize(
    ("kind", "number"), [("central", 1), ("central", 2), ("distributed", 17), ("steps", 1), ("steps", 5)]
)
def test_a_cut_simulation_pays_once_and_ends_in_the_same_bits(kind, number, charged, tmp_path, monkeypatch):
    table = experiment(charged(kind, engine={"evaluate_every": 2, "checkpoint_every": 2}))
    run_experiment(table, tmp_path / "whole")
    with monkeypatch.context() as patch:
        cut_at_release(patch, number)
        with pytest.raises(Cut):
            run_experiment(table, tmp_path / "cut")
    run_experiment(table, tmp_path / "cut", resume=True)
    for name in ("model.safetensors", "ledger.jsonl", "metrics.jsonl"):
        assert (tmp_path / "cut" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name


def test_a_cut_secure_run_is_charged_again(charged, tmp_path, monkeypatch):
    table = experiment(charged(privacy={**FREE, "noise_source": "secure"}))
    with monkeypatch.context() as patch:
        cut_at_release(patch, 1)
        with pytest.raises(Cut):
            run_experiment(table, tmp_path / "run")
    summary = run_experiment(table, tmp_path / "run", resume=True)
    lines = lines_of(tmp_path / "run", "evaluation")
    assert [line.round for line in lines] == [2, 2]
    assert spent(paid(lines, 5, "public"), delta=0.0, neighbours="zero-out").epsilon == pytest.approx(2.0)
    assert summary["epsilon"]["public"]["epsilon"] > make_plan(table).epsilon["public"].epsilon


def test_without_privacy_evaluation_is_charged_all_the_same(charged, tmp_path):
    summary = sordino.run(charged(method={"name": "fedavg"}, privacy=FREE), out=tmp_path / "run")
    assert all(math.isinf(entry["epsilon"]) for entry in summary["epsilon"].values())
    assert len(lines_of(tmp_path / "run", "evaluation")) == 1


def test_what_cannot_be_paid_is_refused_before_anything_is_released(charged, tmp_path):
    def refused(table, match):
        for act in (sordino.plan, lambda table: sordino.run(table, out=tmp_path / "run")):
            with pytest.raises(SordinoError, match=match) as caught:
                act(table)
            assert "\n" not in str(caught.value)
        assert not (tmp_path / "run").exists()

    refused(charged(privacy={"epsilon": 1.0}), r"Evaluation costs ε = 1, but \[privacy\] epsilon is 1 and must leave")
    own = {"epsilon": None, "client_epsilon": [2.0] * 7 + [0.5] + [2.0] * 4}
    refused(charged("local", privacy=own), "but the budget of client 7 is 0.5")
    retiring = {"epsilon": None, "client_epsilon": [9.0] * 12, "noise_multiplier": 3.0}
    refused(charged("local", privacy=retiring), "train until their budgets are spent")
    auto = {"tuning": {"name": "auto", "epsilon": 0.5}, "method": {**STEPS, "batch_size": "full"}}
    refused(charged("steps", **auto, privacy={"epsilon": 1.5}), "besides ε = 0.5 of the statistics")
    refused(charged(method={"name": "centaur"}, privacy=FREE), "method 'centaur' gives clients models of their own")


def test_a_client_without_a_row_to_spare_is_named(charged, tmp_path):
    table = charged("steps", data={"clients": 1790, "partition": {"name": "iid"}})
    with pytest.raises(SordinoError, match=r"client \d+ holds 1; use fewer clients"):
        sordino.plan(table)
