"""What it costs to release only the best of several private runs, their number drawn at random.

Training K runs and releasing the best one leaks more than one run does, and with a fixed K it can leak without limit as K
grows. With K drawn from one of the distributions below, and K, the other runs and their scores kept secret, the price is about
two or three runs, whatever the mean of K (Papernot and Steinke, arXiv:2110.03620).

Formal guarantee: let one run, with its settings drawn independently of the data and its score included, satisfy
(λ, r(λ))-RDP for every order λ. Then releasing the best run satisfies (λ, r'(λ))-RDP with

- truncated negative binomial, η > −1 (Theorem 2; η = 0 is the logarithmic, η = 1 the geometric distribution), for every λ̂ ≥ 1:
  r'(λ) = r(λ) + (1 + η)(1 − 1/λ̂) r(λ̂) + (1 + η) log(1/γ)/λ̂ + log E[K]/(λ − 1);
- Poisson of mean μ (Theorem 6), where a run is (ε̂, δ̂)-DP with ε̂ = log(1 + 1/(λ − 1)):
  r'(λ) = r(λ) + μ δ̂ + log(μ)/(λ − 1).

Runs with other settings may have other curves; the largest at each order holds for the random run, because the Rényi
divergence of mixtures is at most that of the worst pair.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sordino.core import SordinoError
from sordino.privacy.normal import Floats

MOST_RUNS = 100_000
"""A draw stops here; the chance of it is far below any δ."""
BISECTIONS = 200


@dataclass(frozen=True, kw_only=True)
class Stopping(ABC):
    """A distribution of the number of runs."""

    mean: float
    """The expected number of runs."""

    def draw(self, uniform: float) -> int:
        """The number of runs that this point of (0, 1) stands for."""
        below = 0.0
        for number, chance in enumerate(self.chances()):
            below += chance
            if uniform < below:
                return number
        return MOST_RUNS

    @abstractmethod
    def chances(self) -> Iterator[float]:
        """The probability of 0, 1, 2, ... runs, as far as a draw can go."""

    @abstractmethod
    def rdp(self, orders: Floats, one_run: Floats) -> Floats:
        """The RDP of releasing the best run, at these orders, where one run has `one_run`."""


@dataclass(frozen=True, kw_only=True)
class TruncatedNegativeBinomial(Stopping):
    """At least one run; the larger η, the more the number keeps to its mean, and the more it costs."""

    eta: float

    def __post_init__(self) -> None:
        if self.mean <= 1:
            raise SordinoError(f"The expected number of runs should be above 1, but got {self.mean:g}; try 10.")
        if self.eta <= -1:
            raise SordinoError(f"η should be above -1, but got {self.eta:g}; 0 is logarithmic, 1 geometric.")

    @property
    def gamma(self) -> float:
        """The parameter in (0, 1) that gives the mean: the mean falls as γ grows."""
        low, high = -700.0, 0.0
        for _ in range(BISECTIONS):
            middle = (low + high) / 2
            low, high = (middle, high) if _mean(self.eta, math.exp(middle)) > self.mean else (low, middle)
        return math.exp(low)

    def chances(self) -> Iterator[float]:
        yield 0.0
        eta, gamma = self.eta, self.gamma
        chance = (1 - gamma) * (1 / -math.log(gamma) if eta == 0 else eta / (gamma**-eta - 1))
        for number in range(1, MOST_RUNS):
            yield chance
            chance *= (1 - gamma) * (number + eta) / (number + 1)

    def rdp(self, orders: Floats, one_run: Floats) -> Floats:
        at_best_other_order = float(((1 - 1 / orders) * one_run - math.log(self.gamma) / orders).min())
        return one_run + (1 + self.eta) * at_best_other_order + math.log(self.mean) / (orders - 1)


@dataclass(frozen=True, kw_only=True)
class PoissonRuns(Stopping):
    """Concentrated about its mean, and sometimes no run at all: then nothing is released."""

    def __post_init__(self) -> None:
        if not 1 <= self.mean <= 500:
            raise SordinoError(
                f"The expected number of runs should be between 1 and 500, but got {self.mean:g}; try 10."
            )

    def chances(self) -> Iterator[float]:
        chance = math.exp(-self.mean)
        for number in range(MOST_RUNS):
            yield chance
            chance *= self.mean / (number + 1)

    def rdp(self, orders: Floats, one_run: Floats) -> Floats:
        deltas = _deltas(orders, one_run, np.log1p(1 / (orders - 1)))
        return one_run + self.mean * deltas + math.log(self.mean) / (orders - 1)


ETAS = {"logarithmic": 0.0, "geometric": 1.0}


def stopping(name: str, mean: float) -> Stopping:
    """A distribution by name: `logarithmic`, `geometric` or `poisson`.

    Example: `stopping("geometric", 10).draw(0.5)` runs; `stopping("logarithmic", 10).rdp(orders, curve)` is what the best costs.
    """
    if name == "poisson":
        return PoissonRuns(mean=mean)
    if name not in ETAS:
        raise SordinoError(f"--choose takes {', '.join(ETAS)} or poisson, but got {name!r}; logarithmic costs least.")
    return TruncatedNegativeBinomial(mean=mean, eta=ETAS[name])


def _mean(eta: float, gamma: float) -> float:
    if eta == 0:
        return (1 / gamma - 1) / -math.log(gamma)
    return eta * (1 - gamma) / (gamma * -math.expm1(eta * math.log(gamma)))


def _deltas(orders: Floats, rdp: Floats, epsilons: Floats) -> Floats:
    """At each ε, the least δ that the curve vouches for: (1 − 1/λ)^(λ−1) exp((λ − 1)(r − ε)) / λ (arXiv:2004.00010)."""
    exponents = (orders - 1) * (rdp - epsilons[:, None] + np.log1p(-1 / orders)) - np.log(orders)
    found: Floats = np.exp(np.minimum(exponents.min(axis=1), 0.0))
    return found
