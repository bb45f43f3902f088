"""Accounting events as plain values.

Classes and fields have the names of dp-accounting's own, whose accountants read them through `for_dp_accounting`. They are
written again here because importing that package takes longer than a small run.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class DpEvent:
    """Something that was released, as an accountant sees it."""


@dataclass(frozen=True)
class NoOpDpEvent(DpEvent):
    """Nothing happened."""


@dataclass(frozen=True)
class NonPrivateDpEvent(DpEvent):
    """Something went out without protection."""


@dataclass(frozen=True)
class GaussianDpEvent(DpEvent):
    """Normal noise whose standard deviation is `noise_multiplier` times the L2 sensitivity."""

    noise_multiplier: float


@dataclass(frozen=True)
class LaplaceDpEvent(DpEvent):
    """Double-exponential noise whose scale is `noise_multiplier` times the L1 sensitivity."""

    noise_multiplier: float


@dataclass(frozen=True)
class PoissonSampledDpEvent(DpEvent):
    """Every unit is drawn by a coin of its own."""

    sampling_probability: float
    event: DpEvent


@dataclass(frozen=True)
class SampledWithoutReplacementDpEvent(DpEvent):
    """So many units are drawn, all different."""

    source_dataset_size: int
    sample_size: int
    event: DpEvent


@dataclass(frozen=True)
class ComposedDpEvent(DpEvent):
    """Several events on the same data."""

    events: tuple[DpEvent, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "events", tuple(self.events))


@dataclass(frozen=True)
class SelfComposedDpEvent(DpEvent):
    """One event, again and again."""

    event: DpEvent
    count: int


def with_changes(original: DpEvent, /, **changes: Any) -> DpEvent:
    """The same kind of event with other values."""
    changed: DpEvent = dataclasses.replace(original, **changes)
    return changed


def for_dp_accounting(event: DpEvent) -> Any:
    """The same event in dp-accounting's own classes."""
    import dp_accounting

    return getattr(dp_accounting, type(event).__name__)(
        **{field.name: _value(getattr(event, field.name)) for field in dataclasses.fields(event)}
    )


def _value(value: Any) -> Any:
    if isinstance(value, DpEvent):
        return for_dp_accounting(value)
    return [for_dp_accounting(each) for each in value] if isinstance(value, tuple) else value
