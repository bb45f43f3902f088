"""Mechanism audit by repetition: how well do many releases tell two neighbouring inputs apart?

A test that takes one input for the other with error rates α and β refutes every Gaussian-DP claim below
μ = Φ⁻¹(1 − α) − Φ⁻¹(β), and every (ε, δ) claim below ε = log((1 − δ − β) / α). Here α and β are upper confidence
bounds (Clopper-Pearson, each at half of the error allowed), so the results are lower confidence bounds.

Formal guarantee: for independent samples, each bound by itself exceeds the true value with probability at most
1 − confidence. The test (threshold and direction) is fixed on the first half of the samples, the errors counted on the
second. Pooled samples of several pairs of neighbours serve as well: average errors of private tests are private too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from sordino.core import SordinoError
from sordino.privacy.gaussian import gaussian_epsilon

Floats = NDArray[np.float64]
Strength = Callable[[Floats, Floats], Floats]

THRESHOLDS = 512
FEWEST_SAMPLES = 4


@dataclass(frozen=True, kw_only=True)
class GaussianDpAudit:
    """What the samples prove about a mechanism that is claimed to be `claimed_mu`-Gaussian-DP."""

    mu_lower: float
    claimed_mu: float

    @property
    def holds(self) -> bool:
        return self.mu_lower <= self.claimed_mu

    def epsilon_lower(self, delta: float) -> float:
        """The ε that goes with `mu_lower` at δ; a lower bound where the noise is known to be Gaussian."""
        return gaussian_epsilon(self.mu_lower, delta)


def audit_gaussian_dp(
    absent: ArrayLike, present: ArrayLike, *, noise_multiplier: float, releases: int = 1, confidence: float
) -> GaussianDpAudit:
    """Hold samples of a statistic of `releases` Gaussian releases against the claim μ = √releases / z."""
    return GaussianDpAudit(
        mu_lower=mu_lower_bound(absent, present, confidence=confidence),
        claimed_mu=math.sqrt(releases) / noise_multiplier if noise_multiplier > 0 else math.inf,
    )


def mu_lower_bound(absent: ArrayLike, present: ArrayLike, *, confidence: float) -> float:
    """A lower confidence bound on μ, from samples of one statistic without and with the unit."""

    def mu(false_positive: Floats, false_negative: Floats) -> Floats:
        bound: Floats = stats.norm.isf(false_positive) + stats.norm.isf(false_negative)
        return bound

    return _lower_bound(absent, present, mu, confidence)


def epsilon_lower_bound_by_repeats(absent: ArrayLike, present: ArrayLike, *, delta: float, confidence: float) -> float:
    """A lower confidence bound on ε at δ for any mechanism, whatever its noise."""

    def epsilon(false_positive: Floats, false_negative: Floats) -> Floats:
        ratios = (1 - delta - false_negative) / false_positive, (1 - delta - false_positive) / false_negative
        bound: Floats = np.log(np.maximum(np.maximum(*ratios), 1.0))
        return bound

    return _lower_bound(absent, present, epsilon, confidence)


def _lower_bound(absent: ArrayLike, present: ArrayLike, strength: Strength, confidence: float) -> float:
    false_positive, false_negative = tested_errors(absent, present, strength, confidence=confidence)
    return max(0.0, float(strength(np.array([false_positive]), np.array([false_negative]))[0]))


def tested_errors(
    absent: ArrayLike, present: ArrayLike, strength: Strength, *, confidence: float
) -> tuple[float, float]:
    """Upper confidence bounds on both errors of one test, which is the strongest on the first half and counted on the second."""
    if not 0 < confidence < 1:
        raise SordinoError(f"A confidence lies between 0 and 1, but got {confidence}; use for instance 0.95.")
    without, having = (np.asarray(samples, dtype=np.float64).ravel() for samples in (absent, present))
    if min(len(without), len(having)) < FEWEST_SAMPLES or not np.isfinite([without.sum(), having.sum()]).all():
        raise SordinoError(
            f"An audit needs at least {FEWEST_SAMPLES} finite samples of each input, but got {len(without)} and {len(having)}, "
            "or some are not finite; repeat the release more often."
        )
    (fix_without, count_without), (fix_having, count_having) = (_halves(samples) for samples in (without, having))
    pooled = np.concatenate([fix_without, fix_having])
    found, side, threshold = -math.inf, 1.0, 0.0
    for sign in (1.0, -1.0):
        candidates = np.quantile(sign * pooled, np.linspace(0, 1, THRESHOLDS))
        strengths = strength(*_errors(sign * fix_without, sign * fix_having, candidates, confidence))
        best = int(np.argmax(strengths))
        if strengths[best] > found:
            found, side, threshold = float(strengths[best]), sign, float(candidates[best])
    false_positive, false_negative = _errors(
        side * count_without, side * count_having, np.array([threshold]), confidence
    )
    return float(false_positive[0]), float(false_negative[0])


def _halves(samples: Floats) -> tuple[Floats, Floats]:
    middle = len(samples) // 2
    return samples[:middle], samples[middle:]


def _errors(absent: Floats, present: Floats, thresholds: Floats, confidence: float) -> tuple[Floats, Floats]:
    """Upper confidence bounds on both error rates of the tests "above the threshold, the unit is present"."""
    false_positives = len(absent) - np.searchsorted(np.sort(absent), thresholds, side="right")
    false_negatives = np.searchsorted(np.sort(present), thresholds, side="right")
    level = (1 - confidence) / 2
    return (
        _clopper_pearson_upper(false_positives, len(absent), level),
        _clopper_pearson_upper(false_negatives, len(present), level),
    )


def _clopper_pearson_upper(events: NDArray[np.int64], trials: int, level: float) -> Floats:
    return np.where(events < trials, stats.beta.isf(level, events + 1, np.maximum(trials - events, 1)), 1.0)
