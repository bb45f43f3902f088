"""Which of head tuning (HT) and full tuning (FT) the convergence bound prefers.

With T1 rounds on the head and T − T1 on everything, the bound is C0 + C1·T1 + C2·(T − T1), linear in T1, so the best T1 is 0 or T:

    C1 = (4β/T^1.5)·(L·Λ1²/N + 2LΓ) + (16β²L²/T²)·(G1² + G2²)
    C2 = (4β/T^1.5)·(L·Λ2²/N + 2LΓ) + (c·β²L²/T²)·P

A round on the head costs C1 and a round on everything costs C2: **FT where C1 ≥ C2, HT where C1 < C2**. (The sentence after
Theorem 2 of the paper has this the wrong way round; the one after Theorem 3 is right.) P is the noise power on the body's
coordinates. The theorems print c = 8; the paper's Lemma 2 gives 4. Γ is in both and cancels; where batches are full, Λ = 0, and L and
β cancel too. Under the Gaussian mechanism the same constants are called E1 and E2.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Coefficient = Literal["printed", "derived"]
Values = float | NDArray[np.float64]

COEFFICIENTS: Mapping[Coefficient, float] = {"printed": 8.0, "derived": 4.0}
FLIP_DRAWS = 100_000


@dataclass(frozen=True, kw_only=True)
class Statistics:
    """What the rule reads; arrays stand for many cases at once. Without `smoothness`, constants are in units of 8β²L²/T²."""

    head_moment: Values
    full_moment: Values
    head_variance: Values = 0.0
    full_variance: Values = 0.0
    smoothness: Values | None = None

    @staticmethod
    def named(values: Mapping[str, Values]) -> Statistics:
        return Statistics(
            head_moment=values["G1²"],
            full_moment=values["G2²"],
            head_variance=values.get("Λ1²", 0.0),
            full_variance=values.get("Λ2²", 0.0),
            smoothness=values.get("L"),
        )

    @property
    def drift(self) -> Values:
        """An upper bound of Γ = Σ (d_i/d)·‖∇F_i − ∇F‖² = Σ (d_i/d)·‖∇F_i‖² − ‖∇F‖², from what is released already."""
        bound: Values = np.maximum(self.full_moment - self.full_variance, 0.0)
        return bound


@dataclass(frozen=True, kw_only=True)
class Rule:
    """The bound's constants for one run."""

    noise_power: float
    rounds: int
    clients: int
    beta: float
    coefficient: Coefficient

    def constants(self, found: Statistics) -> tuple[Values, Values]:
        """C1 and C2."""
        noise = COEFFICIENTS[self.coefficient] * self.noise_power
        gap = 16 * (found.head_moment + found.full_moment)
        if found.smoothness is None:
            return gap / 8, noise / 8
        smooth = found.smoothness
        steps, squares = 4 * self.beta * smooth / self.rounds**1.5, (self.beta * smooth / self.rounds) ** 2
        drift = 2 * found.drift
        return (
            steps * (found.head_variance / self.clients + drift) + squares * gap,
            steps * (found.full_variance / self.clients + drift) + squares * noise,
        )

    def prefers_full(self, found: Statistics) -> Any:
        """Whether C1 ≥ C2."""
        head, full = self.constants(found)
        return head >= full

    def break_even(self, found: Statistics) -> float:
        """The noise power up to which FT is chosen at these statistics."""
        scale = 16 / COEFFICIENTS[self.coefficient]
        power = scale * (found.head_moment + found.full_moment)
        if found.smoothness is not None and np.all(found.smoothness):
            variances = (found.head_variance - found.full_variance) / self.clients
            per_noise = COEFFICIENTS[self.coefficient] * self.beta * found.smoothness
            power = power + 4 * math.sqrt(self.rounds) * variances / per_noise
        return float(power)


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A released statistic: the weighted mean over clients, and the scales of the Laplace noises in it.

    It is used as released, also where the noise made a square negative: cutting that off would favour FT.
    """

    released: float
    scales: Sequence[float]
    smallest: float = -math.inf
    """What a smaller value is raised to, where zero would make no sense."""

    @property
    def value(self) -> float:
        return max(self.released, self.smallest)

    @property
    def deviation(self) -> float:
        return math.sqrt(sum(2 * scale**2 for scale in self.scales))


def flip_chance(rule: Rule, estimates: Mapping[str, Estimate]) -> float:
    """How often the choice would be the other one for a truth that the noise moved to what was released.

    The noise is known, so this is post-processing: truths are drawn as the release minus fresh noise. It is also the chance
    that noise alone carries a truth at the break-even as far as the release lies from it.
    """
    generator = np.random.default_rng(0)
    truths = {}
    for name, estimate in estimates.items():
        noise = np.zeros(FLIP_DRAWS)
        for scale in estimate.scales:
            noise += generator.laplace(0.0, scale, FLIP_DRAWS)
        truths[name] = np.maximum(estimate.released - noise, estimate.smallest)
    chosen = rule.prefers_full(Statistics.named({name: estimate.value for name, estimate in estimates.items()}))
    return float(np.mean(rule.prefers_full(Statistics.named(truths)) != chosen))


def noise_power(
    *, body_parameters: int, weights: Sequence[float], variances: Sequence[float], cohort_share: float
) -> float:
    """P = p·Σ (d_i/d)²·v_i, the power of the noise on the body's coordinates of the server's step.

    `variances` are those of each client's noise on its mean gradient, per coordinate. Where only a share of the clients is
    drawn, each counts for more by that share and brings its noise that much less often.
    """
    return body_parameters * sum(w**2 * v for w, v in zip(weights, variances, strict=True)) / cohort_share
