"""The plan: what it reads and refuses."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import sordino
from sordino.core import SordinoError
from sordino.data.embedded import EMBEDDED
from sordino.engine import row_checks
from sordino.engine.dealing import federate
from sordino.engine.plan import make_plan
from sordino.engine.resolved import resolve
from sordino.experiment import experiment

TABLE = {
    "name": "planned",
    "rounds": 2,
    "data": {"source": "digits", "clients": 6},
    "model": {"name": "mlp", "hidden": [8]},
    "method": {"name": "dp-fedavg"},
    "privacy": {"epsilon": 5.0, "delta": 1e-3, "expected_cohort": 3},
}


@pytest.fixture
def three_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


def test_the_threads_come_back_after_a_mistake_too(three_threads):
    with pytest.raises(SordinoError):
        sordino.plan(TABLE, "model.name=none")
    assert torch.get_num_threads() == 3


def test_an_example_level_plan_reads_no_inputs(monkeypatch):
    table = {**TABLE, "method": {"name": "dp-sgd"}, "privacy": {"epsilon": 5.0, "delta": 1e-3, "sampler": "everyone"}}
    table["data"] = {**TABLE["data"], "partition": {"name": "dirichlet", "alpha": 0.5}}
    dealt_out = federate(resolve(experiment(table))).sizes
    monkeypatch.setattr("sordino.data.reading.EMBEDDED", {name: _without_inputs(raw) for name, raw in EMBEDDED.items()})
    assert make_plan(experiment(table)).tariff.sizes == dealt_out


def _without_inputs(raw):
    def refuse():
        raise AssertionError("a plan read the inputs")

    return replace(raw, train=replace(raw.train, inputs=refuse))


def test_client_processes_are_counted_and_priced_where_there_are_any():
    facts = make_plan(experiment({**TABLE, "engine": {"name": "process"}})).method_facts
    assert facts["client processes"].startswith("6, about ")
    assert "client processes" not in make_plan(experiment(TABLE)).method_facts


def numbers(path, *, spoilt=()):
    rows = np.arange(240, dtype=np.float32).reshape(60, 4)
    rows[list(spoilt), 1] = np.nan
    np.savez(path, x_train=rows, y_train=np.arange(60) % 2, x_test=-1 - rows[:10], y_test=np.arange(10) % 2)
    return str(path)


def test_rows_that_a_run_would_refuse_are_refused(tmp_path):
    table = {**TABLE, "model": "logistic", "data": {"source": numbers(tmp_path / "n.npz", spoilt=[7]), "clients": 6}}
    for act in (lambda: sordino.plan(table), lambda: sordino.run(table, out=tmp_path / "run")):
        with pytest.raises(SordinoError, match="NaN, infinite or missing value, first in row 8"):
            act()


def test_public_examples_that_are_private_as_well_are_refused(tmp_path):
    private, public = numbers(tmp_path / "private.npz"), numbers(tmp_path / "public.npz")
    start = {"name": "standard", "data": {"source": public, "visibility": "public"}, "epochs": 1}
    table = {**TABLE, "model": "logistic", "data": {"source": private, "clients": 6}, "start": start}
    for act in (lambda: sordino.plan(table), lambda: sordino.run(table, out=tmp_path / "run")):
        with pytest.raises(SordinoError, match="60 examples of the public set 'public' are also training examples"):
            act()


def test_a_plan_says_that_it_left_the_rows_of_a_large_set_to_the_run(tmp_path, monkeypatch):
    table = {**TABLE, "model": "logistic", "data": {"source": numbers(tmp_path / "n.npz"), "clients": 6}}
    assert not any("too much for a plan" in warning for warning in sordino.plan(table).warnings)
    monkeypatch.setattr(row_checks, "BYTES_LOOKED_AT", 100)
    assert any("too much for a plan to look at every row" in warning for warning in sordino.plan(table).warnings)
