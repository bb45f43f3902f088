"""A test that is fixed by ranks: who scores above the k-th highest of those that are out?

Of m independent scores of units that are out, the share of all such scores above the k-th highest is a Beta(k, m − k + 1) number,
whatever the scores are like. Of units that are in, a run that keeps to a trade-off curve lets at most `curve(share)` score above it, each
by itself. So the chance of at least v of n among them is at most

    E[ P(Binomial(n, curve(S)) ≥ v) ],      S ~ Beta(k, m − k + 1),

and where that is below the level, the curve is refuted. Formal guarantee: if k was fixed before the scores were looked at, a true curve is
refuted with probability at most `level`. No sample is spent on finding a threshold, and no error is shared out over two rates.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from sordino.core import SordinoError

Floats = NDArray[np.float64]
HIGHEST_EPSILON = 100.0
EVEN, RARE, RAREST = 60, 40, 1e-9
"""Of the shares that the expectation is taken over: steps in all, steps where they are rarely as large, and how rarely at most."""


@dataclass(frozen=True, kw_only=True)
class Ranked:
    """How many of those that are in score above the k-th highest of those that are out."""

    found: int
    present: int
    accused: int
    absent: int

    def refutes(self, curve: Callable[[Floats], Floats], level: float) -> bool:
        """Whether so many are less likely than `level` for any run that keeps to the curve; rounded up on the way."""
        masses, shares = _shares(self.accused, self.absent)
        return float(masses @ special.bdtrc(self.found - 1, self.present, np.minimum(curve(shares), 1.0))) < level

    def epsilon(self, *, delta: float, level: float, bisections: int) -> float:
        """The largest ε at δ that is refuted, whatever the mechanism; 0 where none is."""

        def curve(epsilon: float) -> Callable[[Floats], Floats]:
            return lambda share: np.minimum(
                np.exp(epsilon) * share + delta, 1 - np.exp(-epsilon) * np.maximum(1 - delta - share, 0.0)
            )

        if not self.found or not self.refutes(curve(0.0), level):
            return 0.0
        refuted, standing = 0.0, HIGHEST_EPSILON
        for _ in range(bisections):
            middle = (refuted + standing) / 2
            if self.refutes(curve(middle), level):
                refuted = middle
            else:
                standing = middle
        return refuted


def ranked(scores: Floats, included: NDArray[np.bool_], share: float) -> Ranked:
    """The test that accuses this share of those that are out; ties speak for the run."""
    if not np.isfinite(scores).all():
        raise SordinoError(
            "An audit needs finite scores, but some are NaN or infinite; look at what the run released first."
        )
    absent, present = np.sort(scores[~included]), scores[included]
    accused = max(1, round(share * len(absent)))
    return Ranked(
        found=int((present > absent[-accused]).sum()),
        present=len(present),
        accused=accused,
        absent=len(absent),
    )


@lru_cache(maxsize=256)
def _shares(accused: int, absent: int) -> tuple[Floats, Floats]:
    """Shares of the others that lie above the k-th highest, each the largest of its step, and how likely each step is."""
    beyond = np.concatenate(
        [np.linspace(1, 0, EVEN, endpoint=False)[1:], np.geomspace(1 / EVEN, RAREST, RARE)[1:], [0.0]]
    )
    masses: Floats = -np.diff(beyond, prepend=1.0)
    shares: Floats = stats.beta.isf(beyond, accused, absent - accused + 1)
    return masses, shares
