"""Sampling audit: is anybody drawn more often than the accounting event says?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from sordino.core import SordinoError
from sordino.privacy.events import describe, sampling

if TYPE_CHECKING:
    from sordino.privacy.event_kinds import DpEvent


@dataclass(frozen=True, kw_only=True)
class SamplingAudit:
    """The least rate at which somebody was drawn, against the rate that was charged."""

    rate_lower: float
    claimed_rate: float

    @property
    def holds(self) -> bool:
        return self.rate_lower <= self.claimed_rate


def audit_sampling(
    draws: Sequence[NDArray[np.int64]], *, units: int, claimed: DpEvent, confidence: float
) -> SamplingAudit:
    """Hold independent draws from `units` against the event of one sampled release.

    Formal guarantee: the bound exceeds every unit's rate with probability at most 1 − confidence (Clopper-Pearson). Half
    of that is spent on all units together, half on the one drawn most often, so a rate wrong for one alone is seen too.
    """
    drawn = sampling(claimed)
    if drawn is None:
        raise SordinoError(f"The event {describe(claimed)} draws nobody by lot; give the event of one sampled release.")
    counts = np.bincount(np.concatenate([np.zeros(0, dtype=np.int64), *draws]), minlength=units)
    level = (1 - confidence) / 2
    together = _clopper_pearson_lower(int(counts.sum()), len(draws) * units, level)
    most_often = _clopper_pearson_lower(int(counts.max()), len(draws), level / units)
    return SamplingAudit(rate_lower=max(together, most_often), claimed_rate=drawn[0])


def _clopper_pearson_lower(events: int, trials: int, level: float) -> float:
    return float(stats.beta.ppf(level, events, trials - events + 1)) if events else 0.0
