"""Noise for a target ε: a root search over the whole planned multiset of releases."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from decimal import ROUND_CEILING, Decimal
from typing import TYPE_CHECKING

from sordino.core import Neighbours, SordinoError
from sordino.privacy.accounting import spent

if TYPE_CHECKING:
    from sordino.privacy.event_kinds import DpEvent

Plan = Callable[[float], Mapping["DpEvent", int]]

LEAST_NOISE, MOST_NOISE = 1e-3, 1e12
TIGHTNESS = 0.999
"""A search ends between this share of the target and the target."""
PURE_TIGHTNESS = 1 - 1e-9
"""At δ = 0 multipliers simply add up, so the search can be as sharp as floats are."""
DIGITS = 5
"""Of a calibrated multiplier: one part in ten thousand more noise at the most."""


def calibrate(plan: Plan, *, epsilon: float, delta: float, neighbours: Neighbours) -> float:
    """The noise multiplier with which `plan(noise_multiplier)` spends just under `epsilon`, rounded up to five digits.

    Formal guarantee: at the returned multiplier, ε is at most the target on the quick and on the precise grid. It is the same
    in every process and on every machine: last digits depend on where arrays lie in memory, and five digits do not.
    """
    if not (epsilon > 0 and math.isfinite(epsilon)):
        raise SordinoError(
            f"The target ε must be a number above 0, but got {epsilon}; for no privacy use method = 'fedavg'."
        )
    if not 0 <= delta < 1:
        raise SordinoError(
            f"δ must be at least 0 and below 1, but got {delta}; a common choice is below 1/N for N units."
        )

    def excess(noise_multiplier: float, *, precise: bool = False) -> float:
        """log(ε / target): at most 0 where the target is kept."""
        figure = spent(plan(noise_multiplier), delta=delta, neighbours=neighbours, precise=precise).epsilon
        return math.log(max(figure, 1e-12) / epsilon)

    low, high = _bracket(excess, epsilon)
    noise_multiplier = rounded_up(_search(excess, low, high, TIGHTNESS if delta > 0 else PURE_TIGHTNESS))
    while max(excess(noise_multiplier), excess(noise_multiplier, precise=True)) > 0:
        noise_multiplier = rounded_up(noise_multiplier * 1.001)
    return noise_multiplier


def rounded_up(number: float) -> float:
    """The least number of `DIGITS` digits that is not below this positive one."""
    exact = Decimal(number)
    return float(exact.quantize(Decimal(1).scaleb(exact.adjusted() + 1 - DIGITS), rounding=ROUND_CEILING))


Point = tuple[float, float]
"""log noise multiplier, and log(ε / target) there."""


def _bracket(excess: Callable[..., float], epsilon: float) -> tuple[Point, Point]:
    """Two points around the root: too little noise, and enough."""
    here = (0.0, excess(1.0))
    step = math.log(4) if here[1] > 0 else -math.log(4)
    while True:
        place = min(max(here[0] + step, math.log(LEAST_NOISE)), math.log(MOST_NOISE))
        there = (place, excess(math.exp(place)))
        if (there[1] > 0) != (here[1] > 0):
            return (here, there) if step > 0 else (there, here)
        if place == math.log(MOST_NOISE):
            raise SordinoError(
                f"No noise multiplier up to {MOST_NOISE:g} keeps this plan within ε = {epsilon:g}; "
                "something in it costs ε whatever the noise, so leave that out or raise ε."
            )
        if place == math.log(LEAST_NOISE):
            raise SordinoError(
                f"ε = {epsilon:g} asks for practically no noise: even multiplier {LEAST_NOISE:g} spends only "
                f"{epsilon * math.exp(there[1]):.4g}; choose a smaller ε, or a method without privacy."
            )
        here = there


def _search(excess: Callable[..., float], low: Point, high: Point, tightness: float) -> float:
    """Interpolate between the brackets on log scales, halving whenever that is slow; always ends on the safe side."""
    aim = math.log(tightness) / 2
    for turn in range(60):
        if high[1] >= math.log(tightness) or high[0] - low[0] < (1 - tightness) / 1e4:
            break
        share = (low[1] - aim) / (low[1] - high[1])
        if turn % 3 == 2 or not math.isfinite(share):
            share = 0.5
        place = low[0] + min(max(share, 0.001), 0.999) * (high[0] - low[0])
        point = (place, excess(math.exp(place)))
        low, high = (point, high) if point[1] > 0 else (low, point)
    return math.exp(high[0])
