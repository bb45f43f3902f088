"""From values to places: straight axes, and one for ε, logarithmic with a place for infinity."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


class Scale(Protocol):
    """An axis of values between two places."""

    def place(self, value: float) -> float: ...

    def ticks(self) -> list[tuple[float, str]]:
        """Places and what is written there."""
        ...


@dataclass(frozen=True, kw_only=True)
class Linear:
    """A straight axis from `low` to `high`, between the places `start` and `end`."""

    low: float
    high: float
    start: float
    end: float
    percent: bool = False
    whole: bool = False
    most_ticks: int = 6

    def place(self, value: float) -> float:
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)

    def ticks(self) -> list[tuple[float, str]]:
        step = nice_step((self.high - self.low) / max(1, self.most_ticks - 1))
        step = math.ceil(step) if self.whole else step
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return [(self.place(number * step), self._text(number * step, step)) for number in range(first, last + 1)]

    def _text(self, value: float, step: float) -> str:
        if self.percent:
            return f"{100 * value:.{1 if step < 0.01 else 0}f} %"
        return f"{value:.4g}"

    def inverse(self) -> tuple[float, float]:
        """a and b such that a + b · place is the value."""
        slope = (self.high - self.low) / (self.end - self.start)
        return self.low - slope * self.start, slope


def nice_step(least: float) -> float:
    """The smallest of 1, 2, 2.5, 5 times a power of ten that is at least so large."""
    power = 10 ** math.floor(math.log10(least)) if least > 0 else 1.0
    return next((factor * power for factor in (1, 2, 2.5, 5) if factor * power >= least * (1 - 1e-9)), 10 * power)


def padded(
    values: Sequence[float], *, share: float = 0.06, floor: float | None = None, ceiling: float | None = None
) -> tuple[float, float]:
    """A range around values with some room, kept within `floor` and `ceiling`."""
    low, high = min(values), max(values)
    room = (high - low) * share if high > low else max(abs(high) * 0.05, 0.01)
    low, high = low - room, high + room
    return (low if floor is None else max(floor, low)), (high if ceiling is None else min(ceiling, high))


@dataclass(frozen=True, kw_only=True)
class Epsilon:
    """A logarithmic axis of ε with a place for ∞ at its end, where there is any."""

    values: Sequence[float]
    start: float
    end: float
    most_ticks: int = 6

    @property
    def _finite(self) -> tuple[float, float]:
        finite = [value for value in self.values if 0 < value < math.inf] or [1.0]
        low, high = min(finite), max(finite)
        return (low / 1.25, high * 1.25) if high / low > 1.5 else (low / 1.8, high * 1.8)

    @property
    def has_infinity(self) -> bool:
        return any(math.isinf(value) for value in self.values)

    @property
    def last_finite(self) -> float:
        """Where the finite part ends."""
        return self.end - (0.13 * (self.end - self.start) if self.has_infinity else 0)

    def place(self, value: float) -> float:
        low, high = self._finite
        if math.isinf(value):
            return self.end - 0.045 * (self.end - self.start)
        share = math.log(min(max(value, low), high) / low) / math.log(high / low)
        return self.start + share * (self.last_finite - self.start)

    def ticks(self) -> list[tuple[float, str]]:
        low, high = self._finite
        powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        for factors in ((1, 1.5, 2, 3, 4, 5, 6, 8), (1, 2, 3, 5, 8), (1, 2, 5), (1, 3), (1,)):
            found = [
                factor * 10.0**power for power in powers for factor in factors if low <= factor * 10.0**power <= high
            ]
            if len(found) <= self.most_ticks:
                break
        told = [(self.place(value), f"{value:g}") for value in found]
        return [*told, *([(self.place(math.inf), "∞")] if self.has_infinity else [])]
