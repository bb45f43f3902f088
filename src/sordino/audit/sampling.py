"""Sampling audit: is anybody drawn more often than the accounting event says?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from sordino.core import SordinoError
from sordino.privacy.events import describe, sampling

if TYPE_CHECKING:
    from dp_accounting import DpEvent


def sampling_p_value(draws: Sequence[NDArray[np.int64]], *, units: int, claimed: DpEvent) -> float:
    """How probable draws as frequent as these are, if every one of `units` is drawn no more often than claimed.

    Formal guarantee: for independent draws at the claimed rate or less, P[p-value ≤ x] ≤ x. Half of x is spent on the
    total, half on the unit drawn most often, so a rate that is wrong for one unit alone is seen too.
    """
    drawn = sampling(claimed)
    if drawn is None:
        raise SordinoError(f"The event {describe(claimed)} draws nobody by lot; give the event of one sampled release.")
    rate, _ = drawn
    counts = np.bincount(np.concatenate([np.zeros(0, dtype=np.int64), *draws]), minlength=units)
    together = stats.binom.sf(counts.sum() - 1, len(draws) * units, rate)
    most_often = stats.binom.sf(counts.max(initial=0) - 1, len(draws), rate) * units
    return min(1.0, 2 * float(min(together, most_often)))
