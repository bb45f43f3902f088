"""What a ledger's bill allows an onlooker at best: the share of present units found at each share of absent ones accused.

A bill stands for a family: the same releases with all their noise scaled by one factor. Where the form of the noise is as the
ledger says and only its amount is in doubt, observations that refute a member of the family prove the ε of that member.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from sordino.core import Neighbours
from sordino.privacy import event_kinds as dp
from sordino.privacy.accounting import loss_distributions, spent
from sordino.privacy.event_kinds import with_changes
from sordino.privacy.events import canonical

if TYPE_CHECKING:
    from sordino.privacy.event_kinds import DpEvent
    from sordino.privacy.loss_distribution import Losses

Floats = NDArray[np.float64]
SMALLEST, LARGEST = 1 / 32, 1024.0
"""Factors on the noise between which a family is searched."""
BISECTIONS, FEW_BISECTIONS = 14, 6
TAIL = 1e-12


@dataclass(frozen=True, eq=False)
class Curve:
    """The most that any test reaches: shares accused wrongly, in ascending order, and rightly."""

    false_positive: Floats
    true_positive: Floats

    def found(self, accused: float) -> float:
        """The largest share of present units that a test finds which accuses this share of absent ones."""
        return float(np.interp(accused, self.false_positive, self.true_positive))

    def all_found(self, accused: Floats) -> Floats:
        """The same for many shares."""
        found: Floats = np.interp(accused, self.false_positive, self.true_positive)
        return found

    def accused(self, found: float) -> float:
        """The smallest share of absent units that a test accuses which finds this share of present ones."""
        return float(np.interp(found, self.true_positive, self.false_positive))


def gaussian_curve(mu: float) -> Curve:
    """Of Gaussian noise with this ratio of shift to spread."""
    places = np.linspace(-9, 9 + min(mu, 60), 6001)
    return _curve(stats.norm.sf(places), stats.norm.sf(places - mu))


def _curve(false_positive: Floats, true_positive: Floats) -> Curve:
    """Both shares in ascending order, from (0, 0) to (1, 1)."""
    order = np.argsort(false_positive, kind="stable")
    return Curve(
        np.concatenate([[0.0], false_positive[order], [1.0]]),
        np.maximum.accumulate(np.concatenate([[0.0], true_positive[order], [1.0]])),
    )


def _of_losses(losses: Losses) -> Curve:
    """Accuse where the loss is high: the share found is the mass there, the share accused that mass over e^loss."""
    places = losses.interval * (losses.start + np.arange(len(losses.mass)))
    found = losses.infinite + np.cumsum(losses.mass[::-1])
    wrong = np.cumsum((losses.mass * np.exp(-np.maximum(places, -700.0)))[::-1])
    return _curve(np.minimum(wrong, 1.0), np.minimum(found, 1.0))


@dataclass(frozen=True, eq=False)
class Claim:
    """A bill, as the ledger has it, and its family."""

    bill: Mapping[DpEvent, int]
    neighbours: Neighbours
    delta: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "_curves_at", lru_cache(maxsize=128)(self._both))

    def epsilon(self, scale: float = 1.0) -> float:
        """ε at δ with all noise scaled."""
        return spent(self._scaled(scale), delta=self.delta, neighbours=self.neighbours).epsilon

    def curve(self, scale: float = 1.0) -> Curve:
        """The most that any test reaches, whether it looks for units that are there or for units that are not."""
        return self._curves(scale)[1]

    def presence(self, scale: float = 1.0) -> Curve:
        """The most that a test for units that are there reaches: who is never drawn looks like somebody who is not there."""
        return self._curves(scale)[0]

    def _curves(self, scale: float) -> tuple[Curve, Curve]:
        found: tuple[Curve, Curve] = self._curves_at(scale)  # type: ignore[attr-defined]
        return found

    def mu(self, scale: float = 1.0) -> float | None:
        """The ratio of shift to spread, where the whole bill is plain Gaussian noise."""
        match list(canonical(self._scaled(scale).items())):
            case [(dp.GaussianDpEvent(noise_multiplier=z), 1)]:
                return (2.0 if self.neighbours == "replace-one" else 1.0) / z
        return None

    def proven(self, refuted: Callable[[Curve], bool], *, bisections: int = BISECTIONS) -> float:
        """The largest ε of the family that observations refute; 0 where they refute nothing."""
        if not refuted(self.curve(LARGEST)):
            return 0.0
        if refuted(self.curve(SMALLEST)):
            return self.epsilon(SMALLEST)
        stands, falls = math.log(SMALLEST), math.log(LARGEST)
        for _ in range(bisections):
            middle = (stands + falls) / 2
            if refuted(self.curve(math.exp(middle))):
                falls = middle
            else:
                stands = middle
        return self.epsilon(math.exp(falls))

    def _both(self, scale: float) -> tuple[Curve, Curve]:
        mu = self.mu(scale)
        if mu is not None:
            return (gaussian_curve(mu),) * 2
        ways = loss_distributions(self._scaled(scale), neighbours=self.neighbours, tail=TAIL)
        present, absent = (_of_losses(way) for way in ways)
        places = np.union1d(present.false_positive, absent.false_positive)
        best = np.maximum(
            np.interp(places, present.false_positive, present.true_positive),
            np.interp(places, absent.false_positive, absent.true_positive),
        )
        return present, Curve(places, best)

    def _scaled(self, scale: float) -> dict[DpEvent, int]:
        return {_with_noise(event, scale): count for event, count in self.bill.items()}


def _with_noise(event: DpEvent, scale: float) -> DpEvent:
    """The same event with every multiplier in it scaled."""
    match event:
        case dp.GaussianDpEvent(noise_multiplier=z) | dp.LaplaceDpEvent(noise_multiplier=z):
            return with_changes(event, noise_multiplier=z * scale)
        case dp.ComposedDpEvent(events=events):
            return dp.ComposedDpEvent(tuple(_with_noise(each, scale) for each in events))
        case dp.PoissonSampledDpEvent(event=inner) | dp.SampledWithoutReplacementDpEvent(event=inner):
            return with_changes(event, event=_with_noise(inner, scale))
        case dp.SelfComposedDpEvent(event=inner):
            return with_changes(event, event=_with_noise(inner, scale))
    return event
