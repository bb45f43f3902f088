"""What a multiset of releases costs: ε at a given δ, under a given relation between neighbours.

PLD is the headline wherever it prices a release as it was made; RDP and pure composition stand beside it. Where it
cannot amplify by sampling, the release is priced as if everybody knew who was drawn, and the smallest valid figure
of all accountants is taken.

Formal guarantee: every figure is an upper bound for the stated relation.

- `zero-out` and `add-remove`: one unit moves a sum by C, so an event's multiplier is used as it stands.
- `replace-one`: one unit moves a sum by 2C: multipliers are halved; a Poisson-sampled unit is replaced by its opposite.
- Announced draw: who is drawn does not depend on the data, so told who it was, a unit's release is the bare event with
  probability q and nothing otherwise, and δ(ε) is q times the event's; not telling cannot cost more.
- Fixed size without replacement, `zero-out`: a unit that contributes zero is a unit of norm at most C, so these
  neighbours are replace-one neighbours too. No less will do for amplification: when a unit leaves the draw another
  takes its seat, and the sum moves by up to 2C. So RDP prices it as replace-one with half the multiplier
  (arXiv:1808.00087). Under `add-remove` the size of the roster itself changes, which the draw shows: refused.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np

from sordino.core import Neighbours, SordinoError
from sordino.privacy import event_kinds as dp
from sordino.privacy.event_kinds import DpEvent, for_dp_accounting, with_changes
from sordino.privacy.events import Releases, canonical, describe, sampling
from sordino.privacy.gaussian import gaussian_epsilon
from sordino.privacy.loss_distribution import (
    Divergence,
    Losses,
    compose,
    gaussian,
    laplace,
    on_grid,
    poisson,
    replaced_gaussian,
    window,
)
from sordino.privacy.normal import Floats

Accountant = Literal["pld", "rdp", "pure", "none"]

MOST_MULTIPLIERS = 128
"""Longer schedules are rounded, towards less noise, to so many distinct multipliers."""

MOST_RDP_CURVES, MOST_FIXED_SIZE_RDP_CURVES = 32, 8
"""An RDP curve takes up to 40 ms, of a fixed-size draw 300 ms; so fewer multipliers are told apart."""

RDP_ROUNDING = 1e-13
"""Curves are logarithms of sums near one, so they are off by a few 1e-16, below zero too; 10¹⁰ releases would make that count."""

COARSEST_INTERVAL = 100.0

MOST_CURVE_POINTS = 2**14
"""Losses of a distribution that is wanted as a whole; a coarser grid is never too low."""

SMALLEST_PLD_DELTA = 1e-11
"""Below this the rounding of Fourier transforms is of the size of δ itself."""


@dataclass(frozen=True, kw_only=True)
class Spent:
    """ε at δ by the accountant that vouches for it, and what the others say."""

    epsilon: float
    delta: float
    accountant: Accountant
    also: Mapping[str, float]
    note: str


@dataclass(frozen=True, kw_only=True)
class Effort:
    """The grid's interval, made finer where it has few points to build and coarser where it has too many."""

    interval: float
    fewest_points: int
    built_points: int
    transformed_points: int


QUICK = Effort(interval=1e-3, fewest_points=2**12, built_points=2**21, transformed_points=2**22)
PRECISE = Effort(interval=1e-4, fewest_points=2**14, built_points=2**22, transformed_points=2**24)


def spent(
    events: Mapping[DpEvent, int], *, delta: float, neighbours: Neighbours, precise: bool = False, both: bool = False
) -> Spent:
    """ε of all `events` together, each as often as its count says; with `both`, every accountant's figure."""
    if not 0 <= delta < 1:
        raise SordinoError(
            f"δ must be at least 0 and below 1, but got {delta}; a common choice is below 1/N for N units."
        )
    releases = canonical(events.items())
    if neighbours == "add-remove" and any(_fixed_size(event) for event, _ in releases):
        raise SordinoError(
            "Fixed-size sampling has no ε under add-remove neighbours, because the roster's size changes; "
            "use neighbours = 'zero-out' or sampler = 'poisson'."
        )
    return _spent(releases, delta, neighbours, PRECISE if precise else QUICK, both)


@lru_cache(maxsize=4096)
def _spent(releases: Releases, delta: float, neighbours: Neighbours, effort: Effort, both: bool) -> Spent:
    if not releases:
        return Spent(epsilon=0.0, delta=delta, accountant="pure", also={}, note="")
    if any(isinstance(event, dp.NonPrivateDpEvent) for event, _ in releases):
        return Spent(
            epsilon=math.inf, delta=delta, accountant="none", also={}, note="Something was released without noise."
        )
    unclaimed = sorted(describe(event) for event, _ in releases if _divergences(event, neighbours) is None)
    figures: dict[Accountant, float] = {}
    settled = False
    if delta >= SMALLEST_PLD_DELTA:
        figures["pld"], exact = _pld(releases, delta, neighbours, effort)
        settled = exact and not unclaimed and math.isfinite(figures["pld"])
    if both or not settled:
        figures["rdp"] = _rdp(releases, delta, neighbours)
        figures["pure"] = sum(count * _pure(event, neighbours) for event, count in releases)
    figures = {name: figure for name, figure in figures.items() if math.isfinite(figure)}
    if not figures:
        note = "These releases have no finite ε at this δ; choose a larger δ."
        return Spent(epsilon=math.inf, delta=delta, accountant="none", also={}, note=note)
    chosen: Accountant = "pld" if settled else min(figures, key=lambda name: figures[name])
    return Spent(
        epsilon=figures[chosen],
        delta=delta,
        accountant=chosen,
        also={name: figure for name, figure in figures.items() if name != chosen},
        note=_note(unclaimed, chosen),
    )


def _note(unclaimed: list[str], chosen: Accountant) -> str:
    if not unclaimed:
        return ""
    how = {
        "pld": "as if everybody knew who was drawn",
        "rdp": "as replace-one with half the noise multiplier",
        "pure": "by pure composition",
        "none": "",
    }[chosen]
    others = f" and {len(unclaimed) - 1} more" if len(unclaimed) > 1 else ""
    return f"A conservative bound: {unclaimed[0]}{others} is priced {how}."


def _fixed_size(event: DpEvent) -> bool:
    drawn = sampling(event)
    return isinstance(event, dp.SampledWithoutReplacementDpEvent) or (drawn is not None and _fixed_size(drawn[1]))


def _sensitivity(neighbours: Neighbours) -> float:
    """How many clip bounds one unit can move a sum by."""
    return 2.0 if neighbours == "replace-one" else 1.0


def _divergences(event: DpEvent, neighbours: Neighbours) -> tuple[Divergence, Divergence] | None:
    """The two directions of an event that PLD prices as it was made; None for the others."""
    moved = _sensitivity(neighbours)
    match event:
        case dp.GaussianDpEvent(noise_multiplier=z):
            return (gaussian(z / moved),) * 2
        case dp.LaplaceDpEvent(noise_multiplier=z):
            return (laplace(z / moved),) * 2
        case dp.PoissonSampledDpEvent(sampling_probability=rate, event=dp.GaussianDpEvent(noise_multiplier=z)):
            return (replaced_gaussian(z, rate),) * 2 if neighbours == "replace-one" else poisson(gaussian(z), rate)
        case dp.PoissonSampledDpEvent(sampling_probability=rate, event=dp.LaplaceDpEvent(noise_multiplier=z)):
            return None if neighbours == "replace-one" else poisson(laplace(z), rate)
    return None


class _GridTooLarge(Exception):
    """The interval has to grow by this factor."""

    def __init__(self, excess: float) -> None:
        self.factor = 2 ** max(1, math.ceil(math.log2(excess)))


def _pld(releases: Releases, delta: float, neighbours: Neighbours, effort: Effort) -> tuple[float, bool]:
    """ε, and whether the grid that was affordable is fine enough to look no further."""
    match list(releases):
        case [(dp.GaussianDpEvent(noise_multiplier=z), _)]:
            return float(gaussian_epsilon(_sensitivity(neighbours) / z, delta)), True
    releases = _fewer_multipliers(releases, lambda _: MOST_MULTIPLIERS)
    width = sum(_loss_range(event, neighbours) for event, _ in releases)
    interval = min(max(effort.interval, width / effort.built_points), width / effort.fewest_points)
    while interval < COARSEST_INTERVAL:
        try:
            ways = _composed(
                releases, neighbours, interval=interval, tail=delta * 1e-6, limit=effort.transformed_points
            )
        except _GridTooLarge as grid:
            interval *= grid.factor
        else:
            epsilon = max(way.epsilon(delta) for way in ways)
            return epsilon, interval <= QUICK.interval * max(1, epsilon)
    return math.inf, False


def loss_distributions(events: Mapping[DpEvent, int], *, neighbours: Neighbours, tail: float) -> tuple[Losses, Losses]:
    """The losses of all `events` together, with the unit present against absent and the other way round; mass below `tail` is infinite.

    Formal guarantee: both dominate the true ones, so what an onlooker could reach by them is an upper bound.
    """
    releases = _fewer_multipliers(canonical(events.items()), lambda _: MOST_MULTIPLIERS)
    width = sum(_loss_range(event, neighbours) for event, _ in releases)
    interval = max(QUICK.interval, width / MOST_CURVE_POINTS)
    while True:
        try:
            return _composed(releases, neighbours, interval=interval, tail=tail, limit=QUICK.transformed_points)
        except _GridTooLarge as grid:
            interval *= grid.factor


def _loss_range(event: DpEvent, neighbours: Neighbours) -> float:
    pair = _divergences(event, neighbours)
    if pair is not None:
        return sum(way.highest - way.lowest for way in pair)
    _, inner = _drawn(event)
    return sum(_loss_range(each, neighbours) for each, _ in canonical([(inner, 1)]))


def _drawn(event: DpEvent) -> tuple[float, DpEvent]:
    drawn = sampling(event)
    assert drawn is not None, "every canonical event that PLD does not price is sampled"
    return drawn


def _composed(
    releases: Releases, neighbours: Neighbours, *, interval: float, tail: float, limit: int
) -> tuple[Losses, Losses]:
    """The losses of all releases together, with the unit present against absent and the other way round."""
    parts = []
    for event, count in releases:
        pair = _divergences(event, neighbours)
        if pair is None:
            rate, inner = _drawn(event)
            ways = _composed(canonical([(inner, 1)]), neighbours, interval=interval, tail=tail, limit=limit)
            one, other = (way.announced(rate) for way in ways)
        else:
            one, other = on_grid(pair, interval)
        parts.append((one, other, count))
    present = _convolved([(one, count) for one, _, count in parts], tail, limit)
    if all(one is other for one, other, _ in parts):
        return present, present
    return present, _convolved([(other, count) for _, other, count in parts], tail, limit)


def _convolved(parts: list[tuple[Losses, int]], tail: float, limit: int) -> Losses:
    kept = window(parts, tail)
    transformed = kept.size * (len(parts) + 4)
    if transformed > limit:
        raise _GridTooLarge(transformed / limit)
    return compose(parts, kept)


def rdp_curve(events: Mapping[DpEvent, int], *, neighbours: Neighbours) -> tuple[Floats, Floats]:
    """Orders, and the Rényi divergence of all `events` together at each; infinite where an event has no curve."""
    from dp_accounting import rdp

    orders = np.asarray(rdp.RdpAccountant().orders, dtype=np.float64)
    releases = canonical(events.items())
    if not all(_has_rdp_curve(event, neighbours) for event, _ in releases):
        return orders, np.full_like(orders, math.inf)
    steps = _fewer_multipliers(
        releases, lambda kind: MOST_FIXED_SIZE_RDP_CURVES if _fixed_size(kind) else MOST_RDP_CURVES
    )
    curves = (count * _rdp_curve(event, neighbours) for event, count in steps)
    return orders, np.sum([np.zeros_like(orders), *curves], axis=0)


def rdp_epsilon(orders: Floats, curve: Floats, *, delta: float) -> float:
    """ε at δ of what has this RDP curve; infinite at δ = 0 and where the curve is."""
    from dp_accounting import rdp

    return math.inf if delta == 0 or np.isinf(curve).all() else float(rdp.compute_epsilon(orders, curve, delta)[0])


def _rdp(releases: Releases, delta: float, neighbours: Neighbours) -> float:
    """ε by Rényi DP at dp-accounting's default orders; infinite where an event has no curve."""
    return math.inf if delta == 0 else rdp_epsilon(*rdp_curve(dict(releases), neighbours=neighbours), delta=delta)


def _has_rdp_curve(event: DpEvent, neighbours: Neighbours) -> bool:
    if isinstance(event, dp.NonPrivateDpEvent):
        return False
    drawn = sampling(event)
    if drawn is None:
        return True
    poisson_sampled = isinstance(event, dp.PoissonSampledDpEvent)
    return isinstance(drawn[1], dp.GaussianDpEvent) and not (poisson_sampled and neighbours == "replace-one")


@lru_cache(maxsize=4096)
def _rdp_curve(event: DpEvent, neighbours: Neighbours) -> Floats:
    from dp_accounting import NeighboringRelation, rdp

    relation, moved = NeighboringRelation.REPLACE_SPECIAL, _sensitivity(neighbours)
    if isinstance(event, dp.SampledWithoutReplacementDpEvent):
        relation, moved = NeighboringRelation.REPLACE_ONE, 2.0
    drawn = sampling(event)
    bare = event if drawn is None else drawn[1]
    assert isinstance(bare, dp.GaussianDpEvent | dp.LaplaceDpEvent), "only these have a curve"
    scaled = type(bare)(bare.noise_multiplier / moved)
    made = scaled if drawn is None else with_changes(event, event=scaled)
    with _without_notes_on_single_orders():
        curve: Floats = rdp.RdpAccountant(neighboring_relation=relation).compose(for_dp_accounting(made)).rdp
    return np.maximum(curve, 0.0) + RDP_ROUNDING


@contextmanager
def _without_notes_on_single_orders() -> Iterator[None]:
    """dp-accounting logs every order whose series does not converge; such an order is left out, which only loosens ε."""
    from absl import logging

    before = logging.get_verbosity()
    logging.set_verbosity(logging.ERROR)
    try:
        yield
    finally:
        logging.set_verbosity(before)


def _fewer_multipliers(releases: Releases, most: Callable[[DpEvent], int]) -> Releases:
    """Long schedules in at most so many steps for each kind of event, each priced at its smallest multiplier."""
    schedules: dict[DpEvent, list[tuple[float, DpEvent, int]]] = defaultdict(list)
    for event, count in releases:
        drawn = sampling(event)
        bare = event if drawn is None else drawn[1]
        z = getattr(bare, "noise_multiplier", 1.0)
        unit = with_changes(bare, noise_multiplier=1.0) if hasattr(bare, "noise_multiplier") else bare
        schedules[unit if drawn is None else with_changes(event, event=unit)].append((z, event, count))
    steps: Counter[DpEvent] = Counter()
    for kind, schedule in schedules.items():
        schedule.sort(key=lambda entry: entry[0])
        size = math.ceil(len(schedule) / most(kind))
        for place, (_, _, count) in enumerate(schedule):
            steps[schedule[place - place % size][1]] += count
    return frozenset(steps.items())


def _pure(event: DpEvent, neighbours: Neighbours) -> float:
    """ε at δ = 0: multipliers of Laplace noise add up, and sampling turns ε into log(1 + q(e^ε − 1)).

    For a fixed-size draw that holds with the inner ε of replace-one (arXiv:1807.01647).
    """
    if isinstance(event, dp.LaplaceDpEvent):
        return _sensitivity(neighbours) / float(event.noise_multiplier)
    drawn = sampling(event)
    if drawn is None:
        return math.inf
    rate, inner = drawn
    content = canonical([(inner, 1)])
    amplified_under: Neighbours = "replace-one" if _fixed_size(event) else neighbours
    bare = sum(count * _pure(each, neighbours) for each, count in content)
    base = sum(count * _pure(each, amplified_under) for each, count in content)
    return min(bare, _amplified(base, rate))


def _amplified(epsilon: float, rate: float) -> float:
    return epsilon + math.log(rate) if epsilon > 600 else math.log1p(rate * math.expm1(epsilon))
