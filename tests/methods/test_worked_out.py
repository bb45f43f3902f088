"""Batches and learning rates that nobody gave: what follows from public facts, and what it costs."""

import math

import pytest

from sordino.core import SordinoError
from sordino.engine.plan import make_plan
from sordino.engine.resolved import resolve
from sordino.experiment import experiment
from sordino.methods.dp_sgd import DpSgd
from sordino.methods.noisy_sgd import NoisySgd
from sordino.methods.sensible import BATCH, REACH, STRIDE, WOBBLE, StepFacts


def facts(**changes):
    return StepFacts(**{"rounds": 100, "local_steps": 1, "clip_norm": 1.0, "noise": 0.0, "parameters": 100, **changes})


def test_steps_go_so_far_together_and_no_further_alone():
    assert facts().pace(0.0) == pytest.approx(REACH / 100)
    assert facts(rounds=2).pace(0.0) == STRIDE
    assert facts(rounds=50, local_steps=2).pace(0.0) == facts().pace(0.0)


def test_the_noise_of_all_steps_is_bounded():
    loud = facts(noise=0.5)
    walked = loud.pace(0.0) * 0.5 * math.sqrt(100 * 100)
    assert walked == pytest.approx(WOBBLE)


def test_clip_and_momentum_change_the_rate_and_not_the_way():
    assert facts(clip_norm=0.1).pace(0.0) == pytest.approx(10 * facts().pace(0.0))
    assert facts().pace(0.9) == pytest.approx(0.1 * facts().pace(0.0))


def test_batches_are_whole_until_they_are_large_and_then_one_share_for_all():
    assert DpSgd().for_sizes([100, BATCH]).rate(100) == 1
    drawn = DpSgd().for_sizes([BATCH, 7 * BATCH])
    assert drawn.rate(BATCH) == drawn.rate(7 * BATCH) == 0.25
    assert DpSgd(batch_size=10).for_sizes([100]).rate(100) == 0.1


def test_the_rate_falls_to_nothing_around_its_mean():
    paces = [NoisySgd(learning_rate=0.5, decay_rounds=10).pace(number) for number in range(12)]
    assert sum(paces[:10]) == pytest.approx(5.0) and paces[0] == pytest.approx(0.95) and paces[10:] == [0.0, 0.0]


def test_what_a_person_says_stays_as_it_was(tiny):
    said = DpSgd(learning_rate=0.3, batch_size=16)
    assert said.for_sizes([9999]).for_steps(facts()) == said
    assert said.pace(0) == said.pace(99) == 0.3


def test_unequal_clients_pay_alike_and_the_plan_says_what_was_worked_out(tiny):
    table = tiny(method={"name": "dp-sgd"})
    table["privacy"] = {"epsilon": 3.0, "delta": 1e-3, "view": "server"}
    table["data"]["partition"] = {"name": "quantity", "ratios": [1, 3]}
    table["data"]["clients"] = 2
    plan = make_plan(experiment(table))
    assert not plan.epsilon_per_client and plan.epsilon["server"].epsilon <= 3.0
    assert plan.method_facts["steps"].startswith("batches of all rows, learning rate ")


def test_steps_inside_another_method_must_be_given(tiny):
    steps = {"learning_rate": "auto"}
    table = tiny(method={"name": "fedceo", "noisy_steps": steps}, privacy={"noise_multiplier": 1.0, "noise": "local"})
    with pytest.raises(SordinoError, match="learning_rate should be a number here, but got 'auto'"):
        resolve(experiment(table))
