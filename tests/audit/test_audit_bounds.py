"""The bounds prove what they should, accuse no more often than stated, and are chosen without a look at the coins."""

import math

import numpy as np
import pytest
from scipy import stats

from sordino.audit.bounds import BOUNDS, Guessing, choose, refuted_in_one_run
from sordino.audit.ranked import Ranked, ranked
from sordino.audit.trade_off import Claim, gaussian_curve
from sordino.core import SordinoError
from sordino.privacy.event_kinds import GaussianDpEvent, LaplaceDpEvent, PoissonSampledDpEvent
from sordino.privacy.gaussian import gaussian_epsilon

PLAIN = Claim({GaussianDpEvent(1.0): 1}, "zero-out", 1e-3)
SAMPLED = Claim({PoissonSampledDpEvent(0.3, GaussianDpEvent(1.5)): 20}, "zero-out", 1e-3)


def scores_of(mu, canaries, rng):
    coins = rng.random(canaries) < 0.5
    return rng.standard_normal(canaries) + mu * coins, coins


def test_the_curve_of_plain_noise_is_the_normal_one_and_scales_with_the_noise():
    curve = gaussian_curve(1.0)
    for accused in (0.001, 0.05, 0.5):
        expected = stats.norm.cdf(stats.norm.ppf(accused) + 1)
        assert curve.found(accused) == pytest.approx(expected, abs=1e-4)
        assert curve.accused(expected) == pytest.approx(accused, abs=1e-4)
    assert PLAIN.mu(2.0) == pytest.approx(0.5)
    assert PLAIN.epsilon(2.0) == pytest.approx(gaussian_epsilon(0.5, 1e-3), rel=1e-3)


@pytest.mark.parametrize("claim", [SAMPLED, Claim({LaplaceDpEvent(2.0): 3}, "zero-out", 1e-3)])
def test_a_composed_curve_says_the_same_as_its_epsilon(claim):
    """The line of (ε, δ) touches the curve from above and nowhere cuts it."""
    epsilon, curve = claim.epsilon(), claim.curve()
    excess = curve.true_positive - np.exp(epsilon) * curve.false_positive
    assert excess.max() == pytest.approx(claim.delta, rel=0.05)


def test_a_sampled_unit_that_is_never_drawn_cannot_be_told_to_be_out():
    """Far out on the curve of presence, those that are in and were not drawn are still missed."""
    presence = Claim({PoissonSampledDpEvent(0.3, GaussianDpEvent(0.2)): 1}, "zero-out", 1e-3).presence()
    assert presence.found(0.01) == pytest.approx(0.3, abs=0.02)
    assert presence.found(0.5) == pytest.approx(0.65, abs=0.02)


@pytest.mark.parametrize("out", [0, 30])
def test_one_run_in_form_accuses_no_more_often_than_stated(out):
    rng, curve, times, level = np.random.default_rng(1), gaussian_curve(1.0), 400, 0.2
    alarms = 0
    for _ in range(times):
        scores, coins = scores_of(1.0, 150, rng)
        way = Guessing(bound="one-run f-DP", called_in=30, called_out=out)
        alarms += refuted_in_one_run(curve, way.correct(scores, coins), way.guesses, len(scores), level)
    assert alarms <= stats.binom.isf(1e-6, times, level)


@pytest.mark.parametrize(("canaries", "share"), [(300, 0.35), (100, 0.1), (40, 0.02)])
def test_ranks_accuse_no_more_often_than_stated_and_hardly_less(canaries, share):
    """Scores that keep to the curve exactly; the chance that is stated is nearly used up where there are many."""
    rng, curve, times, level = np.random.default_rng(7), gaussian_curve(1.0), 1000, 0.2
    alarms = sum(ranked(*scores_of(1.0, canaries, rng), share).refutes(curve.all_found, level) for _ in range(times))
    assert alarms <= stats.binom.isf(1e-6, times, level)
    if canaries == 300:
        assert alarms >= stats.binom.isf(1 - 1e-6, times, 0.8 * level)


def test_ranks_of_units_told_apart_without_a_doubt_prove_what_can_be_worked_out():
    """All n are found above the highest of m: E[(e^ε·S)^n] with S ~ Beta(1, m) is the chance, and n = 1 makes it e^ε / (m + 1)."""
    seen = Ranked(found=1, present=1, accused=1, absent=199)
    proven = seen.epsilon(delta=0.0, level=0.05, bisections=30)
    assert proven == pytest.approx(math.log(0.05 * 200), abs=0.05)
    assert proven <= math.log(0.05 * 200)


def test_ranks_count_ties_for_the_run_and_refuse_what_is_not_finite():
    coins = np.array([True, True, False, False])
    assert ranked(np.ones(4), coins, 0.5).found == 0
    with pytest.raises(SordinoError, match="finite scores"):
        ranked(np.array([1.0, math.nan, 0.0, 1.0]), coins, 0.5)


@pytest.mark.parametrize("bound", BOUNDS)
def test_no_bound_passes_the_truth_and_half_the_noise_is_seen_by_those_in_form(bound):
    rng = np.random.default_rng(2)
    way = choose(4000, PLAIN, confidence=0.99)[1][bound]
    assert 0 < way.proven(*scores_of(1.0, 4000, rng), PLAIN, confidence=0.99) <= PLAIN.epsilon()
    broken = way.proven(*scores_of(2.0, 4000, rng), PLAIN, confidence=0.99)
    if bound == "repeats, in form":
        assert PLAIN.epsilon() < broken <= PLAIN.epsilon(0.5)
    assert broken <= way.power(4000, PLAIN, confidence=0.99)


def test_the_choice_depends_on_the_claim_and_the_number_of_canaries_alone():
    few, many = (choose(count, SAMPLED, confidence=0.95)[0] for count in (30, 6000))
    assert few.bound.startswith("one-run")
    assert many.bound == "repeats, in form"
    assert choose(30, SAMPLED, confidence=0.95)[0] == few


def test_where_nothing_is_told_apart_nothing_is_proven():
    rng = np.random.default_rng(5)
    scores, coins = scores_of(0.0, 1000, rng)
    for way in choose(1000, PLAIN, confidence=0.99)[1].values():
        assert way.proven(scores, coins, PLAIN, confidence=0.99) < 0.2
        assert math.isfinite(way.power(1000, PLAIN, confidence=0.99))
