"""Stages: the same counts as a walk through all rounds gives, told without the walk."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sordino
from sordino.core import SordinoError
from sordino.privacy.adaptive_clip import AdaptiveClip
from sordino.privacy.mechanisms import Gaussian
from sordino.privacy.noise_schedule import NoiseSchedule

BILLION = 10**9


class ByItself(Gaussian):
    """A stranger's mechanism that says for single rounds alone in which stage they are."""

    def stage(self, round_number: int) -> int:
        return round_number % 7 // 3


def walked(mechanism, rounds):
    times = Counter(mechanism.stage(number) for number in rounds)
    return {next(number for number in rounds if mechanism.stage(number) == stage): times[stage] for stage in times}


@given(
    start=st.integers(0, 30),
    stop=st.integers(0, 200),
    step=st.integers(1, 40),
    every=st.integers(1, 50),
    kind=st.sampled_from([AdaptiveClip, NoiseSchedule, ByItself, Gaussian]),
)
def test_stages_are_those_of_a_walk_through_all_rounds(start, stop, step, every, kind):
    mechanism = kind(every=every) if kind in (AdaptiveClip, NoiseSchedule) else kind()
    rounds = range(start, stop, step)
    assert mechanism.stages(rounds) == walked(mechanism, rounds)


def test_a_billion_rounds_are_not_walked_through():
    rounds = range(3, BILLION, 10)
    assert Gaussian().stages(rounds) == NoiseSchedule(decay=0.0).stages(rounds) == {3: BILLION // 10}
    assert AdaptiveClip(every=7).stages(rounds) == {63: 14285714, 3: 85714286}
    assert sum(NoiseSchedule(every=BILLION // 100).stages(rounds).values()) == BILLION // 10


@pytest.mark.parametrize(("mechanism", "words"), [(NoiseSchedule(), "step by step"), (ByItself(), "round to round")])
def test_what_would_take_too_long_is_refused(mechanism, words):
    with pytest.raises(SordinoError, match=words):
        mechanism.stages(range(BILLION))


@pytest.mark.parametrize(
    ("rounds", "mechanism"),
    [(10**7, "gaussian"), (BILLION, "gaussian"), (10**7, {"name": "adaptive-clip", "every": 1000})],
)
def test_plans_of_very_many_rounds_keep_their_target(tiny, rounds, mechanism):
    method = {"name": "dp-sgd", "where": "one-place"} if isinstance(mechanism, dict) else {"name": "dp-fedavg"}
    privacy = {"epsilon": 8.0, "noise_multiplier": None, "mechanism": mechanism}
    planned = sordino.plan(tiny(rounds=rounds, method=method, privacy=privacy))
    assert 6.0 < planned.epsilon["public"].epsilon <= 8.0
    assert planned.to_json()["most_participations"] == rounds
