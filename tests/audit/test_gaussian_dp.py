"""Bounds from repeated releases: sharp enough, and above the truth no more often than stated."""

import math

import numpy as np
import pytest
from scipy import stats

from sordino.audit.gaussian_dp import (
    audit_gaussian_dp,
    epsilon_lower_bound_by_repeats,
    mu_lower_bound,
)
from sordino.core import SordinoError
from sordino.privacy.accounting import spent
from sordino.privacy.event_kinds import GaussianDpEvent
from sordino.privacy.gaussian import gaussian_epsilon

RNG_SEED = 5
ALARM = 1e-6
"""Chance of a false alarm of each test of coverage below."""


def pairs(law, shift, size, times):
    rng = np.random.default_rng(RNG_SEED)
    for _ in range(times):
        yield law.rvs(size=size, random_state=rng), law.rvs(size=size, random_state=rng) + shift


@pytest.mark.parametrize("mu", [0.0, 0.5, 2.0, -1.0])
def test_the_bound_on_mu_exceeds_the_truth_no_more_often_than_stated(mu):
    times, confidence = 200, 0.8
    above = sum(mu_lower_bound(*pair, confidence=confidence) > abs(mu) for pair in pairs(stats.norm, mu, 60, times))
    assert above <= stats.binom.isf(ALARM, times, 1 - confidence)


@pytest.mark.parametrize("epsilon", [0.2, 1.5])
def test_the_bound_on_epsilon_exceeds_the_truth_no_more_often_than_stated(epsilon):
    times, confidence = 200, 0.8
    above = sum(
        epsilon_lower_bound_by_repeats(*pair, delta=0.0, confidence=confidence) > epsilon
        for pair in pairs(stats.laplace, epsilon, 60, times)
    )
    assert above <= stats.binom.isf(ALARM, times, 1 - confidence)


@pytest.mark.parametrize("sign", [1, -1])
def test_many_samples_bring_the_bounds_near_the_truth_in_either_direction(sign):
    ((absent, present),) = pairs(stats.norm, sign * 1.0, 200_000, 1)
    assert 0.9 < mu_lower_bound(absent, present, confidence=0.999) <= 1.0
    ((absent, present),) = pairs(stats.laplace, sign * 1.0, 200_000, 1)
    assert 0.9 < epsilon_lower_bound_by_repeats(absent, present, delta=0.0, confidence=0.999) <= 1.0


@pytest.mark.parametrize("delta", [0.0, 0.01, 0.1])
def test_without_errors_the_bounds_are_those_of_clopper_and_pearson(delta):
    absent, present, confidence = np.zeros(200), np.ones(300), 0.95
    fewest, most = (1 - ((1 - confidence) / 2) ** (1 / counted) for counted in (150, 100))
    epsilon = math.log((1 - delta - most) / fewest)
    assert epsilon_lower_bound_by_repeats(absent, present, delta=delta, confidence=confidence) == pytest.approx(epsilon)
    mu = stats.norm.isf(fewest) + stats.norm.isf(most)
    assert mu_lower_bound(absent, present, confidence=confidence) == pytest.approx(mu)


@pytest.mark.parametrize("mu", [0.1, 1.0, 4.0])
@pytest.mark.parametrize("delta", [1e-6, 1e-2])
def test_epsilon_of_mu_agrees_with_the_accountant(mu, delta):
    priced = spent({GaussianDpEvent(1 / mu): 1}, delta=delta, neighbours="zero-out", precise=True).epsilon
    assert gaussian_epsilon(mu, delta) == pytest.approx(priced, abs=2e-3)


def test_epsilon_of_mu_at_its_ends():
    assert gaussian_epsilon(0.0, 1e-5) == 0.0
    assert gaussian_epsilon(0.1, 0.5) == 0.0
    assert gaussian_epsilon(math.inf, 1e-5) == math.inf
    assert gaussian_epsilon(1.0, 0.0) == math.inf


def test_an_audit_compares_with_the_composed_claim():
    ((absent, present),) = pairs(stats.norm, 2.0, 4000, 1)
    assert not audit_gaussian_dp(absent, present, noise_multiplier=1.0, confidence=0.95).holds
    audit = audit_gaussian_dp(absent, present, noise_multiplier=1.0, releases=4, confidence=0.95)
    assert audit.holds
    assert 0 < audit.epsilon_lower(1e-5) < gaussian_epsilon(2.0, 1e-5)


@pytest.mark.parametrize("samples", [[1.0, 2.0], [1.0, math.nan, 2.0, 3.0]])
def test_too_few_or_broken_samples_are_refused(samples):
    with pytest.raises(SordinoError, match="finite samples"):
        mu_lower_bound(samples, [0.0] * 10, confidence=0.95)
    with pytest.raises(SordinoError, match="confidence"):
        mu_lower_bound([0.0] * 10, [0.0] * 10, confidence=95)
