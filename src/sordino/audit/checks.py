"""Tests of the parts that canaries are hidden by: is the noise what was charged, is it drawn afresh, is anybody drawn too often?

Each gives one verdict with a sentence. A p-value below `level` is an alarm; the chance of a false one is at most `level`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from sordino.audit.planting.ground import Ground
from sordino.audit.planting.rounds import CanaryRun
from sordino.audit.sampling import audit_sampling
from sordino.core import View
from sordino.privacy.event_kinds import DpEvent, PoissonSampledDpEvent
from sordino.privacy.events import sampling

FEWEST_COHORTS = 10
PLAIN = {"gaussian": "norm", "banded": "norm", "laplace": "laplace"}
"""Noises by what their blanks are distributed like: correlated ones are looked at after the correlation was undone."""
FEWEST = 1000
"""Draws below which a test of the noise says little, so it is not made."""


@dataclass(frozen=True, kw_only=True)
class Check:
    """One verdict."""

    name: str
    view: str
    holds: bool
    sentence: str
    figures: dict[str, float]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def noise_checks(ground: Ground, runs: Sequence[CanaryRun], view: View, *, level: float) -> list[Check]:
    """Two-sided: too little noise breaks the promise, too much breaks the accuracy that was paid for."""
    tariff = ground.parts.tariff
    kind = tariff.mechanism.noise
    summed = kind == "laplace" and tariff.steps is None and tariff.placement != "central" and view != "server"
    moved_inside = tariff.mechanism.moves_clip and tariff.steps is not None and tariff.steps.local_steps > 1
    if kind not in PLAIN or moved_inside or (summed and tariff.uses == "sum"):
        return []
    if kind == "laplace" and tariff.steps is not None:
        return []
    parts = [value.numpy() for run in runs for value in run.sights[view].blanks.values]
    draws = np.concatenate(parts) if parts else np.zeros(0)
    if len(draws) < FEWEST:
        return []
    made = stats.kstest(draws, PLAIN[kind])
    spread = float(np.sqrt(np.mean(draws**2))) / (np.sqrt(2.0) if kind == "laplace" else 1.0)
    afresh = np.array([one for run in runs for one in run.sights[view].blanks.correlations])
    found = [
        Check(
            name="noise as charged",
            view=view,
            holds=bool(made.pvalue >= level),
            sentence=f"{len(draws):,} draws of the noise have {spread:.3f} times the spread that was charged.",
            figures={"p_value": float(made.pvalue), "draws": float(len(draws)), "spread": spread},
        )
    ]
    if len(afresh):
        chance = min(1.0, 2 * len(afresh) * float(stats.norm.sf(np.abs(afresh).max())))
        found.append(
            Check(
                name="noise drawn afresh",
                view=view,
                holds=chance >= level,
                sentence=f"{len(afresh)} pairs of releases in a row are as independent as they should be."
                if chance >= level
                else f"of {len(afresh)} pairs of releases in a row, some share their noise.",
                figures={"p_value": chance, "pairs": float(len(afresh))},
            )
        )
    return [*found, *_counts_check(runs, view, level=level), *_inside_check(runs, view, level=level)]


def _counts_check(runs: Sequence[CanaryRun], view: View, *, level: float) -> list[Check]:
    """Two-sided, on the counts that move a clip: a canary that is in is never within it, one that is out always."""
    counts = [(run.coins[client], value, spread) for run in runs for client, value, spread in run.sights[view].counts]
    standard = [(value - (not inside)) / spread for inside, value, spread in counts]
    return _spread_check("counts noised as charged", "counts that move the clip", standard, view, level=level)


def _inside_check(runs: Sequence[CanaryRun], view: View, *, level: float) -> list[Check]:
    """Two-sided, on the noise where public rows span a subspace, which has a clip and a noise of its own."""
    standard = [one for run in runs for one in run.sights[view].inside]
    return _spread_check("noise in the subspace as charged", "numbers in the subspace", standard, view, level=level)


def _spread_check(name: str, what: str, standard: Sequence[float], view: View, *, level: float) -> list[Check]:
    """Whether these are standard normal by their squares; nothing where there are none."""
    if not standard:
        return []
    squares = float(np.square(standard).sum())
    chance = 2 * float(min(stats.chi2.cdf(squares, len(standard)), stats.chi2.sf(squares, len(standard))))
    spread = (squares / len(standard)) ** 0.5
    return [
        Check(
            name=name,
            view=view,
            holds=chance >= level,
            sentence=f"The noise of {len(standard):,} {what} has {spread:.3f} times the spread that was charged.",
            figures={"p_value": chance, "draws": float(len(standard)), "spread": spread},
        )
    ]


def _sizes_check(draws: Sequence[NDArray[np.int64]], claimed: DpEvent, pool: int, *, level: float) -> list[Check]:
    """Of coins, sizes vary as those of independent draws do: a draw of a fixed size has another price."""
    if not isinstance(claimed, PoissonSampledDpEvent) or len(draws) < FEWEST_COHORTS:
        return []
    rate = claimed.sampling_probability
    sizes = np.array([len(draw) for draw in draws], dtype=np.float64)
    scatter = float(((sizes - sizes.mean()) ** 2).sum()) / (pool * rate * (1 - rate))
    chance = 2 * min(stats.chi2.cdf(scatter, len(sizes) - 1), stats.chi2.sf(scatter, len(sizes) - 1))
    return [
        Check(
            name="cohorts vary as charged",
            view="public",
            holds=bool(chance >= level),
            sentence=f"The sizes of {len(sizes)} cohorts vary {scatter / (len(sizes) - 1):.3g} times as much as fair draws do.",
            figures={"p_value": float(chance), "cohorts": float(len(sizes))},
        )
    ]


def batches_check(ground: Ground, runs: Sequence[CanaryRun], view: View, *, level: float) -> list[Check]:
    """Whether rows show more than they should at the rate that was charged, each with no more than the clip."""
    tariff = ground.parts.tariff
    if ground.unit != "example" or tariff.mechanism.moves_clip:
        return []
    shown, expected, variance = 0.0, 0.0, 0.0
    for run in runs:
        weights = run.sights[view].weights
        shown += float(weights.shown[run.coins].sum())
        expected += float(weights.expected[run.coins].sum())
        variance += float(run.coins.sum()) * weights.variance / max(1, ground.clients) + float(
            weights.expected[run.coins].sum()
        )
    chance = float(stats.norm.sf((shown - expected) / max(1e-12, variance) ** 0.5))
    ratio = shown / max(1e-12, expected)
    return [
        Check(
            name="batches as charged",
            view=view,
            holds=chance >= level,
            sentence=f"Rows show {ratio:.3f} times as much as at the rate and the clip that were charged.",
            figures={"p_value": chance, "ratio": ratio},
        )
    ]


def sampling_check(ground: Ground, runs: Sequence[CanaryRun], *, level: float) -> list[Check]:
    """Cohorts of all runs against the event that rounds were charged with."""
    sampler = ground.parts.tariff.sampler
    draws, claimed = [], None
    for run in runs:
        for line in run.ledger.lines:
            public = next(charge for charge in line.charges if charge.view == "public")
            if ground.unit == "client" and line.label == "update" and sampling(public.event) is not None:
                claimed = public.event
                draws.append(np.array(line.participants, dtype=np.int64) // sampler.period)
    if claimed is None:
        return []
    found = audit_sampling(draws, units=sampler.smallest_pool + 1, claimed=claimed, confidence=1 - level)
    return [
        *_sizes_check(draws, claimed, sampler.smallest_pool, level=level),
        Check(
            name="drawn as charged",
            view="public",
            holds=found.holds,
            sentence=f"Over {len(draws)} cohorts nobody is proven to be drawn at a rate above {found.rate_lower:.4g}; "
            f"{found.claimed_rate:.4g} was charged.",
            figures={"rate_lower": found.rate_lower, "claimed_rate": found.claimed_rate, "cohorts": float(len(draws))},
        ),
    ]
