"""Scores of a model, and the area under its curve."""

import dataclasses

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score
from torch import nn

import sordino
from sordino.data.examples import IDENTITY, Examples
from sordino.engine.evaluate import accuracy_epsilon_area, evaluate, macro_auroc
from sordino.engine.record import RunRecord
from sordino.models import Net
from sordino.report.sweep_table import sweep_table
from sordino.report.terminal import plan_table, summary_table


@pytest.mark.parametrize("ties", [False, True])
def test_auroc_is_that_of_the_reference(ties):
    generator = torch.Generator().manual_seed(1)
    scores = torch.randn(300, 4, generator=generator, dtype=torch.float64)
    scores = (scores.round() if ties else scores).softmax(1)
    labels = torch.randint(4, (300,), generator=generator)
    expected = roc_auc_score(labels, scores, multi_class="ovr", average="macro")
    assert macro_auroc(scores, labels) == pytest.approx(expected, abs=1e-12)


def test_auroc_leaves_out_classes_that_never_occur():
    scores, labels = torch.eye(4)[[0, 1, 0, 1]], torch.tensor([0, 1, 0, 1])
    assert macro_auroc(scores, labels) == 1.0
    assert macro_auroc(1 - scores, labels) == 0.0
    assert macro_auroc(torch.zeros(4, 4), labels) == 0.5
    assert macro_auroc(scores, torch.zeros(4, dtype=torch.int64)) is None


def test_scores_are_those_of_all_examples_whatever_the_chunks(monkeypatch):
    net = Net(body=nn.Identity(), head=nn.Linear(3, 3))
    rows = Examples(inputs=torch.randn(50, 3), labels=torch.arange(50) % 3, normalisation=IDENTITY)
    whole = evaluate(net, rows, torch.device("cpu"))
    monkeypatch.setattr("sordino.engine.evaluate.rows_at_once", lambda *_: 7)
    chunked = evaluate(net, rows, torch.device("cpu"))
    assert (chunked.accuracy, chunked.auroc) == (whole.accuracy, whole.auroc)
    assert chunked.others["loss"] == pytest.approx(whole.others["loss"])
    assert chunked.others["confusion"] == whole.others["confusion"]
    right = (net(rows.inputs).argmax(1) == rows.labels).float().mean().item()
    assert whole.accuracy == pytest.approx(right)


def test_the_area_is_made_of_trapezoids():
    rows = [{"epsilon": epsilon, "accuracy": accuracy} for epsilon, accuracy in ((0.5, 0.2), (1.0, 0.4), (2.0, 0.6))]
    assert accuracy_epsilon_area(rows) == pytest.approx(0.5 * 0.3 + 1.0 * 0.5)
    assert accuracy_epsilon_area(rows[:1]) == 0
    assert accuracy_epsilon_area([{"epsilon": "inf", "accuracy": 0.9}] * 2) is None
    assert accuracy_epsilon_area([]) is None


def drawn(table):
    from io import StringIO

    from rich.console import Console

    console = Console(file=StringIO(), width=200)
    console.print(table)
    return console.file.getvalue()


def test_a_run_tells_auroc_area_and_what_unequal_clients_pay(tiny, tmp_path):
    table = tiny(
        data={"clients": 3, "partition": {"name": "quantity", "ratios": [45, 9, 1]}},
        method={"name": "dp-sgd", "batch_size": 8},
        privacy={"sampler": "everyone", "expected_cohort": None},
    )
    summary = sordino.run(table, out=tmp_path / "run")
    metrics = RunRecord(tmp_path / "run").read_metrics()
    assert summary["auroc"] == metrics[-1]["auroc"] and 0 < summary["auroc"] < 1
    assert summary["accuracy_epsilon_area"] == accuracy_epsilon_area(metrics) > 0
    paid = summary["epsilon"]["public"]["per_client"]
    planned = sordino.plan(table).to_json()
    assert planned["epsilon_per_client"] == pytest.approx(paid, rel=1e-3)
    assert paid["0"] < paid["1"] < paid["2"] == summary["epsilon"]["public"]["epsilon"]
    assert "ε public of clients 0 to 2: " in drawn(summary_table([summary]))
    assert "ε public of clients 0 to 2: " in drawn(plan_table(planned))
    assert f"AUROC {summary['auroc']:.3f}" in drawn(summary_table([summary]))


def test_clients_that_pay_alike_are_not_listed(tiny):
    assert sordino.plan(tiny()).to_json()["epsilon_per_client"] == {}


def test_a_sweep_shows_auroc_and_area():
    row = {
        "settings": {"seed": "1"},
        "accuracy": 0.5,
        "spread": float("nan"),
        "accuracies": [0.5],
        "auroc": 0.875,
        "accuracy_epsilon_area": 0.25,
        "epsilon": dict.fromkeys(("public", "server", "client"), 1.0),
        "seconds": 1.0,
        "runs": ["seed=1"],
    }
    assert "0.875" in drawn(sweep_table([row])) and "area 0.250" in drawn(sweep_table([row]))


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([50_000 // 3] * 3, [0.862]),
        ([11_959 // 3] * 3, [3.73]),
        (np.diff(np.rint(np.cumsum([0, 45, 9, 1]) / 55 * 50_000)).astype(int).tolist(), [0.33, 1.79, 17.9]),
    ],
    ids=["CIFAR-10", "blood cells", "CIFAR-10 as 45:9:1"],
)
def test_the_papers_settings_cost_each_client_what_they_should(sizes, expected):
    from sordino.engine.pricing import make_tariff
    from sordino.engine.resolved import resolve
    from sordino.experiment import experiment
    from sordino.methods.dp_sgd import DpSgd

    table = experiment(
        {
            "rounds": 100,
            "data": {"source": "digits", "clients": 3},
            "model": {"name": "cnn"},
            "method": {"name": "dp-sgd", "batch_size": 256},
            "privacy": {"noise_multiplier": 1.1, "sampler": "everyone"},
        }
    )
    tariff = make_tariff(dataclasses.replace(resolve(table), method=DpSgd(batch_size=256)), clients=3, sizes=sizes)
    found = list(tariff.each(table.privacy).values())
    if len(expected) == 1:
        assert not found
        found = [tariff.worst(table.privacy, all_accountants=False)["public"].epsilon]
    assert found == pytest.approx(expected, rel=0.01)
