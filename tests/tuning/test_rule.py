"""The rule: which end of the line is lower, on hand-made statistics either side of the break-even."""

import math

import numpy as np
import pytest

from sordino.tuning.rule import Estimate, Rule, Statistics, flip_chance, noise_power

ROUNDS, CLIENTS, BODY = 128, 10, 543_808


def laplace_power(*, clip, epsilon, rows):
    """As Theorem 2 prints it: 8β²L²/T²·P = 64β²L²pξ²/d²·Σ 1/ε²."""
    return 8 * BODY * ROUNDS**2 * clip**2 / (rows * CLIENTS) ** 2 * CLIENTS / epsilon**2


def rule(power, coefficient="printed", beta=0.5):
    return Rule(noise_power=power, rounds=ROUNDS, clients=CLIENTS, beta=beta, coefficient=coefficient)


def test_noise_power_is_that_of_the_theorem():
    rows, clip, epsilon = 5000, 300.0, 25.0
    scale = 2 * ROUNDS * clip / (rows * epsilon)
    found = noise_power(
        body_parameters=BODY, weights=[1 / CLIENTS] * CLIENTS, variances=[2 * scale**2] * CLIENTS, cohort_share=1.0
    )
    assert found == pytest.approx(laplace_power(clip=clip, epsilon=epsilon, rows=rows), rel=1e-12)


@pytest.mark.parametrize(("coefficient", "share"), [("printed", 2.0), ("derived", 4.0)])
@pytest.mark.parametrize("smoothness", [None, 3.0])
def test_full_tuning_up_to_the_break_even_and_the_head_beyond(coefficient, share, smoothness):
    found = Statistics(head_moment=0.7, full_moment=2.3, smoothness=smoothness)
    even = rule(1.0, coefficient).break_even(found)
    assert even == pytest.approx(share * 3.0)
    assert rule(even * (1 - 1e-9), coefficient).prefers_full(found)
    assert not rule(even * (1 + 1e-9), coefficient).prefers_full(found)
    assert rule(6.0).prefers_full(Statistics(head_moment=0.7, full_moment=2.3)), "C1 = C2 is full tuning"


def test_constants_are_those_of_the_theorem():
    found = Statistics(head_moment=0.7, full_moment=2.3, head_variance=0.2, full_variance=0.5, smoothness=3.0)
    one, other = rule(40.0).constants(found)
    beta, smooth, drift = 0.5, 3.0, 2.3 - 0.5
    first = 4 * beta / ROUNDS**1.5
    assert one == pytest.approx(
        first * (smooth * 0.2 / CLIENTS + 2 * smooth * drift) + 16 * beta**2 * smooth**2 / ROUNDS**2 * 3.0
    )
    assert other == pytest.approx(
        first * (smooth * 0.5 / CLIENTS + 2 * smooth * drift) + 8 * beta**2 * smooth**2 / ROUNDS**2 * 40.0
    )
    even = rule(1.0).break_even(found)
    assert np.subtract(*rule(even).constants(found)) == pytest.approx(0.0, abs=1e-9 * one)


def test_the_chance_to_flip_is_that_of_the_noise():
    """One Laplace noise of scale b: it passes a margin m on the losing side with chance exp(−m/b)/2."""
    estimates = {
        "G1²": Estimate(released=50.0, scales=[1.0]),
        "G2²": Estimate(released=50.0, scales=[]),
    }
    for margin in (0.0, 1.0, 3.0):
        chance = flip_chance(rule(2 * (100.0 - margin)), estimates)
        assert chance == pytest.approx(math.exp(-margin) / 2, abs=0.006)
    assert flip_chance(rule(2 * 60.0), estimates) == 0.0
    assert flip_chance(rule(2 * 103.0), estimates) == pytest.approx(math.exp(-3) / 2, abs=0.006)
