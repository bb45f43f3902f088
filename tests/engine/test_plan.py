"""The plan's estimate of time: measured as one worker computes."""

import pytest
import torch

import sordino
from sordino.core import SordinoError
from sordino.engine import plan as planning

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
