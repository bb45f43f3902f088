"""The one-run bound: its formula, and that it is a lower bound with the stated confidence, by exact enumeration."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from sordino.audit.one_run import audit_one_run, correct_guesses, epsilon_lower_bound, p_value
from sordino.core import SordinoError


@st.composite
def outcomes(draw):
    guesses = draw(st.integers(1, 60))
    return draw(st.integers(0, guesses)), guesses, guesses + draw(st.integers(0, 60))


@settings(deadline=None)
@given(outcomes(), st.floats(0, 5), st.sampled_from([0.0, 1e-6, 1e-3]))
def test_the_p_value_is_the_binomial_tail_with_its_correction_for_delta(outcome, epsilon, delta):
    correct, guesses, canaries = outcome
    chance = 1 / (1 + math.exp(-epsilon))

    def between(low, high):
        return sum(math.comb(guesses, k) * chance**k * (1 - chance) ** (guesses - k) for k in range(low, high))

    worst = max((between(correct - i, correct) / i for i in range(1, correct + 1)), default=0.0)
    expected = min(1.0, between(correct, guesses + 1) + 2 * canaries * delta * worst)
    assert p_value(correct, guesses, canaries, epsilon, delta) == pytest.approx(expected, rel=1e-6, abs=1e-12)


@settings(deadline=None)
@given(st.integers(5, 500), st.sampled_from([0.9, 0.95, 0.999]))
def test_with_every_guess_right_the_bound_is_the_known_ceiling(guesses, confidence):
    chance = (1 - confidence) ** (1 / guesses)
    ceiling = max(0.0, math.log(chance / (1 - chance)))
    assert epsilon_lower_bound(guesses, guesses, guesses, 0.0, confidence) == pytest.approx(ceiling, abs=1e-9)


@pytest.mark.parametrize("confidence", [0.8, 0.95])
@pytest.mark.parametrize("delta", [0.0, 1e-4, 1e-2])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_private_mechanisms_are_accused_no_more_often_than_stated(epsilon, delta, confidence):
    """Randomised response that tells the truth with probability δ: for each canary by itself, or for all at once."""
    guesses = 40
    honest = 1 / (1 + math.exp(-epsilon))
    accused = np.array([epsilon_lower_bound(v, guesses, guesses, delta, confidence) > epsilon for v in range(41)])
    each = stats.binom(guesses, delta + (1 - delta) * honest).pmf(np.arange(41))
    together = (1 - delta) * stats.binom(guesses, honest).pmf(np.arange(41))
    together[-1] += delta
    for chances in (each, together):
        assert chances @ accused <= 1 - confidence


@given(outcomes(), st.sampled_from([0.0, 1e-5, 1e-3]))
@settings(deadline=None, max_examples=50)
def test_more_right_guesses_prove_more_and_more_delta_or_confidence_less(outcome, delta):
    correct, guesses, canaries = outcome
    bound = epsilon_lower_bound(correct, guesses, canaries, delta, 0.95)
    slack = 1e-9
    assert bound <= epsilon_lower_bound(guesses, guesses, canaries, delta, 0.95) + slack
    assert bound <= epsilon_lower_bound(correct, guesses, canaries, delta / 2, 0.95) + slack
    assert bound >= epsilon_lower_bound(correct, guesses, canaries, delta, 0.99) - slack


def test_guesses_go_to_both_ends_of_the_scores():
    scores = np.array([0.1, 5.0, -3.0, 0.2, 4.0])
    included = np.array([True, True, True, False, False])
    assert correct_guesses(scores, included, called_in=1, called_out=0) == 1
    assert correct_guesses(scores, included, called_in=2, called_out=0) == 1
    assert correct_guesses(scores, ~included, called_in=2, called_out=1) == 2
    audit = audit_one_run(scores, included, called_in=1, called_out=1, claimed_epsilon=1.0, delta=0.0, confidence=0.95)
    assert (audit.correct, audit.guesses, audit.canaries, audit.holds) == (1, 2, 5, True)


def test_senseless_counts_are_refused():
    with pytest.raises(SordinoError, match="at most once"):
        correct_guesses(np.zeros(3), np.zeros(3, dtype=bool), called_in=2, called_out=2)
    with pytest.raises(SordinoError, match="check their order"):
        epsilon_lower_bound(5, 4, 10, 0.0, 0.95)
