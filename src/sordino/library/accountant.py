"""ε of releases that somebody else makes: an accountant for own loops, which also takes dp-accounting's own events."""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import Any

from sordino.core import Neighbours, SordinoError
from sordino.privacy import event_kinds
from sordino.privacy.accounting import Spent, spent
from sordino.privacy.calibration import calibrate
from sordino.privacy.event_kinds import DpEvent, GaussianDpEvent, PoissonSampledDpEvent


class Accountant:
    """Adds up what was released, and says which ε it amounts to.

    >>> accountant = sordino.Accountant()
    >>> accountant.add_step(noise_multiplier=1.1, rate=0.01, times=1000)
    >>> accountant.epsilon(delta=1e-5)

    Args:
        neighbours: what two data sets that must look alike differ in: "zero-out" (one example counts as nothing), "replace-one".
    """

    def __init__(self, neighbours: Neighbours = "zero-out") -> None:
        self._neighbours, self._events = neighbours, Counter[DpEvent]()

    def add_step(self, *, noise_multiplier: float, rate: float = 1.0, times: int = 1) -> Accountant:
        """So many sums with normal noise, each over a fresh Poisson batch at this rate; 1 means all examples, always."""
        return self.add(gaussian_step(noise_multiplier, rate), times=times)

    def add(self, event: Any, *, times: int = 1) -> Accountant:
        """Any event, of `sordino.extend` or of dp-accounting, which happens so many times."""
        if times < 0:
            raise SordinoError(f"A release happens 0 times or more, but got times = {times}; correct it.")
        self._events[event if isinstance(event, DpEvent) else _ours(event)] += times
        return self

    def spent(self, *, delta: float) -> Spent:
        """ε at this δ, by the accountant that vouches for it, and what the others say."""
        return spent(+self._events, delta=delta, neighbours=self._neighbours, precise=True)

    def epsilon(self, *, delta: float) -> float:
        """ε at this δ; an upper bound that holds."""
        return self.spent(delta=delta).epsilon


def noise_multiplier(
    *, epsilon: float, delta: float, steps: int, rate: float = 1.0, neighbours: Neighbours = "zero-out"
) -> float:
    """The least noise with which so many steps on Poisson batches at this rate spend at most ε at δ.

    >>> sordino.noise_multiplier(epsilon=3.0, delta=1e-5, steps=1000, rate=0.01)
    """
    if steps < 1:
        raise SordinoError(f"Noise is worked out for at least one step, but got steps = {steps}; correct it.")
    return calibrate(
        lambda noise: {gaussian_step(noise, rate): steps}, epsilon=epsilon, delta=delta, neighbours=neighbours
    )


def gaussian_step(noise_multiplier: float, rate: float) -> DpEvent:
    """One sum with normal noise, over a Poisson batch at this rate."""
    if not 0 < rate <= 1:
        raise SordinoError(f"A batch is drawn at a rate above 0 and up to 1, but got rate = {rate}; correct it.")
    bare = GaussianDpEvent(noise_multiplier)
    return bare if rate == 1 else PoissonSampledDpEvent(rate, bare)


def _ours(event: Any) -> DpEvent:
    """An event of dp-accounting in our own classes, which have the same names and fields."""
    kind = getattr(event_kinds, type(event).__name__, None)
    if not (isinstance(kind, type) and issubclass(kind, DpEvent)):
        raise SordinoError(
            f"An accountant takes events such as GaussianDpEvent, but got {type(event).__name__}; see sordino.extend for all kinds."
        )
    return kind(**{field.name: _value(getattr(event, field.name)) for field in dataclasses.fields(kind)})


def _value(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return tuple(map(_value, value))
    return _ours(value) if type(value).__name__.endswith("DpEvent") else value
