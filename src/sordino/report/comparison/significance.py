"""Which differences are more than noise: paired tests over seeds, corrected for their number.

Formal guarantee: where differences over seeds are normal, the chance of calling any difference real that is none is at most
the level, however many configurations are compared (Holm's correction over all pairs). So the best of many may be picked by
looking, as long as every pair was counted. Noise means seeds: the partition, the start and the training. The test rows are the
same for all.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import statistics
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

LEVEL = 0.05
"""The chance of seeing any difference where there is none."""

Figures = Mapping[Hashable, float]
"""A configuration's figure by replicate: the seed, for runs that can be repeated."""


@dataclass(frozen=True, kw_only=True)
class Difference:
    """How much better `first` did than `second`, over the replicates that both have."""

    first: str
    second: str
    mean: float
    spread: float
    pairs: int
    p: float | None
    """By itself, and `corrected` among all; None where both share fewer than two replicates."""
    corrected: float | None

    @property
    def more_than_noise(self) -> bool:
        return self.corrected is not None and self.corrected < LEVEL


def differences(figures: Mapping[str, Figures]) -> list[Difference]:
    """All pairs, better first.

    Example: `differences({"a": {1: 0.9, 2: 0.91, 3: 0.9}, "b": {1: 0.8, 2: 0.82, 3: 0.81}})[0].more_than_noise`.
    """
    found = [_difference(one, other, figures) for one, other in itertools.combinations(figures, 2)]
    tested = [one.p for one in found if one.p is not None]
    corrected = iter(holm(tested))
    return [one if one.p is None else dataclasses.replace(one, corrected=next(corrected)) for one in found]


def _difference(one: str, other: str, figures: Mapping[str, Figures]) -> Difference:
    if statistics.fmean(figures[one].values()) < statistics.fmean(figures[other].values()):
        one, other = other, one
    apart = [figures[one][key] - figures[other][key] for key in figures[one] if key in figures[other]]
    several = len(apart) > 1
    return Difference(
        first=one,
        second=other,
        mean=statistics.fmean(apart) if apart else math.nan,
        spread=_spread(apart) if several else math.nan,
        pairs=len(apart),
        p=paired_p(apart) if several else None,
        corrected=None,
    )


def paired_p(apart: Sequence[float]) -> float:
    """Two-sided: Student's t; where all differences are the same, which normal ones never are, the sign test."""
    from scipy.special import stdtr

    mean, spread = statistics.fmean(apart), _spread(apart)
    if spread <= 1e-12 * max(map(abs, apart)) or not any(apart):
        return 1.0 if not any(apart) else 2.0 ** (1 - len(apart))
    return float(2 * stdtr(len(apart) - 1, -abs(mean) / (spread / math.sqrt(len(apart)))))


def _spread(numbers: Sequence[float]) -> float:
    """The standard deviation of a sample: `statistics.stdev`, which works in fractions, takes twenty times as long."""
    mean = statistics.fmean(numbers)
    return math.sqrt(math.fsum((number - mean) ** 2 for number in numbers) / (len(numbers) - 1))


def holm(values: Sequence[float]) -> list[float]:
    """Each p-value corrected for their number, in the order given."""
    corrected, highest = [0.0] * len(values), 0.0
    for rank, place in enumerate(sorted(range(len(values)), key=values.__getitem__)):
        highest = max(highest, min(1.0, (len(values) - rank) * values[place]))
        corrected[place] = highest
    return corrected
