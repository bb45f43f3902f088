"""Canary audit in one run: from the number of canaries guessed right to a lower bound on ε (arXiv:2305.08846).

Each of m canaries is in or out by a fair coin. Of an (ε, δ)-DP run, r guesses are right at least v times with
probability at most

    P[B ≥ v] + 2·m·δ · max over i = 1 … v of P[v > B ≥ v − i] / i,      B ~ Binomial(r, 1 / (1 + e^−ε)).

Formal guarantee: if r was fixed before the coins were looked at, the lower bound exceeds the true ε with probability
at most 1 − confidence. With every guess right it reaches about log(r / log(1 / (1 − confidence))), so one run catches
gross breaks only; a bound below the claim is no proof of the claim.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import special

from sordino.core import SordinoError

HIGHEST_EPSILON = 700.0
BISECTIONS = 40


@dataclass(frozen=True, kw_only=True)
class OneRunAudit:
    """How many guesses were right, and what that proves against the ε claimed."""

    canaries: int
    guesses: int
    correct: int
    epsilon_lower: float
    claimed_epsilon: float

    @property
    def holds(self) -> bool:
        return self.epsilon_lower <= self.claimed_epsilon


def audit_one_run(
    scores: NDArray[np.float64],
    included: NDArray[np.bool_],
    *,
    called_in: int,
    called_out: int,
    claimed_epsilon: float,
    delta: float,
    confidence: float,
) -> OneRunAudit:
    """Call so many canaries with the highest scores in, and so many with the lowest out; the rest stays undecided.

    Where units are drawn by lot, call none out: one that was in and never drawn looks the same.
    """
    guesses = called_in + called_out
    correct = correct_guesses(scores, included, called_in=called_in, called_out=called_out)
    lower = epsilon_lower_bound(correct, guesses, len(scores), delta, confidence)
    return OneRunAudit(
        canaries=len(scores), guesses=guesses, correct=correct, epsilon_lower=lower, claimed_epsilon=claimed_epsilon
    )


def correct_guesses(
    scores: NDArray[np.float64], included: NDArray[np.bool_], *, called_in: int, called_out: int
) -> int:
    if min(called_in, called_out) < 0 or called_in + called_out > len(scores):
        raise SordinoError(
            f"There are {len(scores)} canaries, but {called_in} were to be called in and {called_out} out; "
            "guess each at most once."
        )
    order = np.argsort(scores, kind="stable")
    lowest, highest = order[:called_out], order[len(order) - called_in :]
    return int(included[highest].sum() + (~included[lowest]).sum())


@lru_cache(maxsize=4096)
def epsilon_lower_bound(correct: int, guesses: int, canaries: int, delta: float, confidence: float) -> float:
    """The largest ε that this many correct guesses refute at δ; 0 where they refute nothing."""
    if not (0 <= correct <= guesses <= canaries and 0 <= delta <= 1 and 0 < confidence < 1):
        raise SordinoError(
            "An audit needs correct ≤ guesses ≤ canaries, δ in [0, 1] and a confidence in (0, 1), but got "
            f"{correct}, {guesses}, {canaries}, {delta} and {confidence}; check their order."
        )
    level = 1 - confidence
    refuted, standing = 0.0, 1.0
    if p_value(correct, guesses, canaries, refuted, delta) >= level:
        return 0.0
    while standing < HIGHEST_EPSILON and p_value(correct, guesses, canaries, standing, delta) < level:
        refuted, standing = standing, 2 * standing
    for _ in range(BISECTIONS):
        middle = (refuted + standing) / 2
        if p_value(correct, guesses, canaries, middle, delta) < level:
            refuted = middle
        else:
            standing = middle
    return refuted


def p_value(correct: int, guesses: int, canaries: int, epsilon: float, delta: float) -> float:
    """The most probable that at least `correct` right guesses can be for an (ε, δ)-DP run."""
    chance = 1 / (1 + math.exp(-epsilon))
    right = np.arange(correct - 1, -1, -1)
    wrong = -math.log1p(math.exp(epsilon))  # the logarithm of 1 − chance, exact where that is tiny
    fewer = np.cumsum(np.exp(_ways_to_be_right(guesses)[right] + right * math.log(chance) + (guesses - right) * wrong))
    correction = float(np.max(fewer / np.arange(1, correct + 1), initial=0.0))
    tail = float(special.bdtrc(correct - 1, guesses, chance)) if correct else 1.0
    return min(1.0, tail + 2 * canaries * delta * correction)


@lru_cache(maxsize=64)
def _ways_to_be_right(guesses: int) -> NDArray[np.float64]:
    """The logarithm of the number of ways in which so many of all guesses are right."""
    count = np.arange(guesses + 1)
    found: NDArray[np.float64] = (
        special.gammaln(guesses + 1) - special.gammaln(count + 1) - special.gammaln(guesses - count + 1)
    )
    return found
