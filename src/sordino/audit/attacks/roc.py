"""How well scores tell members from others, and whether that is more than an ε allows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from sordino.audit.trade_off import Curve

Floats = NDArray[np.float64]
RATES = (0.01, 0.001)
"""Shares of others that are accused, at which the share of members found is told."""
DRAWN = 60
"""Points of a curve that is kept."""
LEVEL = 0.05 / 2
"""By which chance an attack may seem to pass the bound, for each of two rates."""


@dataclass(frozen=True, eq=False)
class Roc:
    """Scores of members and of others; higher means more like a member."""

    members: Floats
    others: Floats

    @property
    def auc(self) -> float:
        ranks = stats.rankdata(np.concatenate([self.members, self.others]))
        count = len(self.members)
        return float((ranks[:count].sum() - count * (count + 1) / 2) / (count * len(self.others)))

    def found(self, rate: float) -> float | None:
        """The share of members above the score that this share of others passes; None where there are too few others."""
        accused = int(rate * len(self.others))
        if accused < 1:
            return None
        threshold = np.sort(self.others)[-accused - 1] if accused < len(self.others) else -np.inf
        return float((self.members > threshold).mean())

    def found_at_least(self, rate: float) -> float | None:
        """The lower confidence bound of the share that is found: what so few members show for sure."""
        found = self.found(rate)
        if found is None:
            return None
        right = round(found * len(self.members))
        return float(stats.beta.ppf(LEVEL / 2, right, len(self.members) - right + 1)) if right else 0.0

    def passes(self, allowed: Curve, rate: float) -> bool:
        """Whether more is found than is allowed, beyond chance: both shares are taken at their confidence bounds."""
        least = self.found_at_least(rate)
        if least is None:
            return False
        accused = int(rate * len(self.others))
        most = float(stats.beta.ppf(1 - LEVEL / 2, accused + 1, len(self.others) - accused))
        return least > allowed.found(most)

    def curve(self, allowed: Curve | None) -> dict[str, list[float]]:
        """The curve at shares of others spaced evenly in their logarithm, beside what is allowed there."""
        rates = np.geomspace(1 / max(2, len(self.others)), 1, DRAWN)
        found = [float((self.members > np.quantile(self.others, 1 - rate)).mean()) for rate in rates]
        return {
            "fpr": [float(rate) for rate in rates],
            "tpr": found,
            "allowed": [1.0 if allowed is None else allowed.found(float(rate)) for rate in rates],
        }

    def to_json(self, allowed: Curve | None) -> dict[str, Any]:
        """AUC, shares found at fixed rates, and the bound beside them; no score of anybody."""
        return {
            "auc": self.auc,
            "members": len(self.members),
            "non_members": len(self.others),
            "tpr": {f"{rate:g}": self.found(rate) for rate in RATES},
            "tpr_at_least": {f"{rate:g}": self.found_at_least(rate) for rate in RATES},
            "allowed_tpr": {f"{rate:g}": 1.0 if allowed is None else allowed.found(rate) for rate in RATES},
            "holds": allowed is None or not any(self.passes(allowed, rate) for rate in RATES),
            "curve": self.curve(allowed),
        }
