"""Which client work may be stacked: plain SGD, and nothing that a subclass changes without saying so."""

from dataclasses import dataclass

import pytest
import torch

from sordino.engine.simulate.schedule import stacked_job
from sordino.methods import METHODS
from sordino.methods.local_sgd import LocalSgd

WORK = ("orders", "batches", "passes", "workload", "optimiser", "run", "gradients", "gradients_of", "descend")
SETTINGS = {"epochs": 3, "batch_size": 7, "learning_rate": 0.2, "momentum": 0.5, "weight_decay": 0.1}


@pytest.mark.parametrize("name", ["fedavg", "dp-fedavg", "dp-fedavg-fb", "fedceo", "udp-fedavg-svt"])
def test_members_that_leave_the_work_alone_are_stacked_as_plain_sgd(name):
    assert stacked_job(METHODS[name](**SETTINGS).job) == LocalSgd(**SETTINGS)


@pytest.mark.parametrize("name", ["centaur", "dp-pfeddsu", "ppsgd", "pmtl-ft", "dp-sgd"])
def test_members_with_other_work_are_not_stacked(name):
    assert stacked_job(METHODS[name]().job) is None


def test_everything_the_work_is_made_of_is_known():
    own = {name for name in vars(LocalSgd) if not name.startswith("__")} - set(LocalSgd.__dataclass_fields__)
    assert own - {"plain", "plan_facts", "stacked"} == set(WORK)


@pytest.mark.parametrize("name", WORK)
def test_a_subclass_that_changes_any_of_the_work_is_not_stacked(name):
    changed = type("Changed", (LocalSgd,), {name: vars(LocalSgd)[name]})
    assert stacked_job(changed()) is not None, "the same function again changes nothing"
    changed = type("Changed", (LocalSgd,), {name: lambda self, *given: None})
    assert stacked_job(changed()) is None
    inherited = type("Inherited", (changed,), {})
    assert stacked_job(inherited()) is None
    mixed = type("Mixed", (type("Mixin", (), {name: lambda self, *given: None}), LocalSgd), {})
    assert stacked_job(mixed()) is None


def test_work_changed_on_one_object_is_not_stacked():
    job = LocalSgd()
    object.__setattr__(job, "run", lambda start, examples, context: torch.zeros_like(start))
    assert stacked_job(job) is None


def test_settings_that_are_worked_out_are_not_stacked():
    @dataclass(frozen=True, kw_only=True)
    class Falling(LocalSgd):
        pass

    Falling.learning_rate = property(lambda self: 0.1, lambda self, value: None)
    assert stacked_job(Falling()) is None

    class Bent(LocalSgd):
        def __getattribute__(self, name):
            return super().__getattribute__(name)

    assert stacked_job(Bent()) is None


def test_whoever_says_how_is_stacked_and_nobody_is_stacked_as_something_else():
    class Twice(LocalSgd):
        def run(self, start, examples, context):
            return LocalSgd(epochs=2).run(start, examples, context)

        def stacked(self):
            return LocalSgd(epochs=2)

    class Wrong(Twice):
        def stacked(self):
            return self

    class Silent:
        def run(self, start, examples, context):
            return torch.zeros_like(start)

    assert stacked_job(Twice()) == LocalSgd(epochs=2)
    assert stacked_job(Wrong()) is None
    assert stacked_job(Silent()) is None
