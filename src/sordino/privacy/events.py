"""Accounting events as values: how they are written down, joined and described.

A `noise_multiplier` is always the scale of the noise on the *sum* (standard
deviation for Gaussian noise, the parameter b for Laplace noise) divided by the clip bound C of one unit.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from sordino.core import SordinoError
from sordino.privacy import event_kinds as dp
from sordino.privacy.event_kinds import DpEvent, with_changes

Releases = frozenset[tuple["DpEvent", int]]
"""Events in canonical form, and how often each happened."""


def joint(*noise_multipliers: float) -> float:
    """The one multiplier that several Gaussian releases from the same batch amount to: (Σ zᵢ⁻²)^(−1/2).

    Formal guarantee: releasing f₁ and f₂ with multipliers z₁ and z₂ is, after rescaling each by its own noise, one
    Gaussian release of a vector whose sensitivity is (z₁⁻² + z₂⁻²)^(1/2). Sample the joint event, never its parts.
    """
    if not noise_multipliers or any(not z >= 0 for z in noise_multipliers):
        raise SordinoError(f"Noise multipliers must be numbers ≥ 0, but got {noise_multipliers}; give at least one.")
    smallest = min(noise_multipliers)
    if smallest == 0 or math.isinf(smallest):
        return smallest
    return smallest / math.sqrt(sum((smallest / z) ** 2 for z in noise_multipliers))


_KINDS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "gaussian": ("GaussianDpEvent", {"noise_multiplier": "noise_multiplier"}),
    "laplace": ("LaplaceDpEvent", {"noise_multiplier": "noise_multiplier"}),
    "poisson": ("PoissonSampledDpEvent", {"rate": "sampling_probability", "event": "event"}),
    "without-replacement": (
        "SampledWithoutReplacementDpEvent",
        {"total": "source_dataset_size", "drawn": "sample_size", "event": "event"},
    ),
    "all-of": ("ComposedDpEvent", {"events": "events"}),
    "repeated": ("SelfComposedDpEvent", {"count": "count", "event": "event"}),
    "non-private": ("NonPrivateDpEvent", {}),
    "nothing": ("NoOpDpEvent", {}),
}
"""The kinds a ledger knows: dp-accounting's class, and its fields by the names they have in JSON."""


def to_json(event: DpEvent) -> dict[str, Any]:
    """An event as plain JSON values."""
    for kind, (class_name, fields) in _KINDS.items():
        if type(event).__name__ == class_name:
            return {"kind": kind, **{name: _plain(getattr(event, field)) for name, field in fields.items()}}
    raise SordinoError(
        f"The event {event!r} cannot be written to a ledger; use Gaussian, Laplace or a sampling of these."
    )


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [to_json(each) for each in value]
    return value if isinstance(value, int | float) else to_json(value)


def from_json(data: Mapping[str, Any]) -> DpEvent:
    """The event that `to_json` wrote."""
    try:
        class_name, fields = _KINDS[data["kind"]]
        event: DpEvent = getattr(dp, class_name)(**{field: _event_value(data[name]) for name, field in fields.items()})
    except (KeyError, TypeError) as error:
        raise SordinoError(f"A ledger event was expected, but got {data!r}; restore the file from a copy.") from error
    return event


def _event_value(value: Any) -> Any:
    """Lists become tuples, so that events can be counted."""
    if isinstance(value, Mapping):
        return from_json(value)
    if isinstance(value, list):
        return tuple(from_json(each) for each in value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{value!r} is not a number")
    return value


def describe(event: DpEvent) -> str:
    """An event in words, such as "Gaussian z=1.1, Poisson-sampled at q=0.0154"."""
    match event:
        case dp.GaussianDpEvent(noise_multiplier=z):
            words = f"Gaussian z={z:.4g}"
        case dp.LaplaceDpEvent(noise_multiplier=z):
            words = f"Laplace z={z:.4g}"
        case dp.PoissonSampledDpEvent(sampling_probability=rate, event=inner):
            words = f"{describe(inner)}, Poisson-sampled at q={rate:.4g}"
        case dp.SampledWithoutReplacementDpEvent(source_dataset_size=total, sample_size=drawn, event=inner):
            words = f"{describe(inner)}, {drawn} of {total} drawn without replacement"
        case dp.ComposedDpEvent(events=events):
            words = f"[{' and '.join(describe(each) for each in events)}]"
        case dp.SelfComposedDpEvent(event=inner, count=count):
            words = f"{count} times [{describe(inner)}]"
        case dp.NonPrivateDpEvent():
            words = "released without noise"
        case dp.NoOpDpEvent():
            words = "nothing released"
        case _:
            words = repr(event)
    return words


def canonical(events: Iterable[tuple[DpEvent, int]]) -> Releases:
    """The same releases without nesting; what costs nothing is left out, bare Gaussians are joined into one."""
    counts: Counter[DpEvent] = Counter()
    gaussians: list[float] = []
    for event, count in events:
        if count < 0:
            raise SordinoError(f"An event cannot happen {count} times; counts must be at least 0.")
        for leaf, times in _leaves(event, count):
            if isinstance(leaf, dp.GaussianDpEvent):
                gaussians.append(leaf.noise_multiplier / math.sqrt(times))
            else:
                counts[leaf] += times
    if gaussians:
        counts[dp.GaussianDpEvent(joint(*gaussians))] = 1
    return frozenset(counts.items())


def sampling(event: DpEvent) -> tuple[float, DpEvent] | None:
    """The rate at which a unit is drawn and what is then done, or None where nobody is drawn."""
    match event:
        case dp.PoissonSampledDpEvent(sampling_probability=rate, event=inner):
            return rate, inner
        case dp.SampledWithoutReplacementDpEvent(source_dataset_size=total, sample_size=drawn, event=inner):
            return drawn / total if total > 0 else math.nan, inner
    return None


def _leaves(event: DpEvent, count: int) -> Iterator[tuple[DpEvent, int]]:
    if count == 0:
        return
    match event:
        case dp.NoOpDpEvent():
            return
        case dp.NonPrivateDpEvent():
            yield event, count
        case dp.SelfComposedDpEvent(event=inner, count=times):
            yield from _leaves(inner, count * times)
        case dp.ComposedDpEvent(events=inner):
            for each in inner:
                yield from _leaves(each, count)
        case dp.GaussianDpEvent(noise_multiplier=z) | dp.LaplaceDpEvent(noise_multiplier=z):
            if not z >= 0:
                raise SordinoError(f"A noise multiplier must be a number ≥ 0, but got {z}.")
            if math.isfinite(z):
                yield (type(event)(float(z)) if z > 0 else dp.NonPrivateDpEvent()), count
        case dp.PoissonSampledDpEvent() | dp.SampledWithoutReplacementDpEvent():
            yield from _sampled_leaves(event, count)
        case _:
            raise SordinoError(f"The event {event!r} cannot be priced; use Gaussian, Laplace or a sampling of these.")


def _sampled_leaves(event: DpEvent, count: int) -> Iterator[tuple[DpEvent, int]]:
    """One draw stays one event, whatever is released from it: its releases are joint."""
    drawn = sampling(event)
    assert drawn is not None
    rate, inner = drawn
    if not 0 <= rate <= 1:
        raise SordinoError(f"A unit is drawn with a probability between 0 and 1, but got {describe(event)}.")
    content = canonical([(inner, 1)])
    if rate == 0 or not content:
        return
    if rate == 1:
        yield from ((each, count * times) for each, times in content)
    elif any(isinstance(each, dp.NonPrivateDpEvent) for each, _ in content):
        yield dp.NonPrivateDpEvent(), count
    else:
        parts = tuple(dp.SelfComposedDpEvent(each, n) if n > 1 else each for each, n in sorted(content, key=repr))
        yield with_changes(event, event=parts[0] if len(parts) == 1 else dp.ComposedDpEvent(parts)), count
