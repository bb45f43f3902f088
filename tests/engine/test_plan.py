"""The plan: what it reads, and its estimate of time, measured as one worker computes."""

from dataclasses import replace

import pytest
import torch

import sordino
from sordino.core import SordinoError
from sordino.data.embedded import EMBEDDED
from sordino.engine import plan as planning
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


def test_steps_are_timed_on_one_thread_and_the_others_come_back(three_threads, monkeypatch):
    during = []
    loss = planning.cross_entropy

    def watched(*arguments):
        during.append(torch.get_num_threads())
        return loss(*arguments)

    monkeypatch.setattr(planning, "cross_entropy", watched)
    sordino.plan(TABLE)
    assert set(during) == {1}
    assert torch.get_num_threads() == 3


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
