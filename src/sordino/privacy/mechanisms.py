"""Mechanisms: which norm they need bounded, what noise they draw, what they release from one batch, and what it costs.

Most release one sum. Some release several values from the same batch, their `parts`; these are one joint release with the
multiplier (Σ zᵢ⁻²)^(−1/2), sampled once. Some change with the rounds, their `stage`; each round then has a price of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

from sordino.core import Norm
from sordino.registry import Registry

if TYPE_CHECKING:
    from torch import Tensor

    from sordino.privacy.event_kinds import DpEvent
    from sordino.privacy.noise import NoiseSource

UPDATE = "update"
"""The part that every mechanism releases first."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """One of the values released from one batch: what bounds it, and its noise as a multiple of that bound."""

    name: str
    clip_bound: float
    noise_multiplier: float


class Mechanism(Protocol):
    """Adds noise of scale `noise_multiplier` times the clip bound to a bounded sum.

    Example:
        see `Gaussian` in this file: `draw` draws what `event` tells the accountant
    """

    norm: ClassVar[Norm]
    divisible: ClassVar[bool]
    """Whether independent shares add up to the mechanism's own noise."""
    noise: ClassVar[str]
    """The kind of noise by the name it has in ledger lines."""
    not_for_clients: ClassVar[str]
    """Why client updates cannot go through it, or nothing where they can."""

    def stage(self, round_number: int) -> int:
        """Rounds of the same stage cost the same."""
        ...

    def parts(self, noise_multiplier: float, *, bound: float, stage: int, expected_units: float) -> tuple[Part, ...]:
        """What is released from a batch of so many expected units, at the run's noise multiplier."""
        ...

    def event(self, noise_multiplier: float) -> DpEvent: ...

    def draw(self, source: NoiseSource, like: Tensor, *, scale: float, stream: int) -> Tensor: ...


MECHANISMS: Registry[type[Mechanism]] = Registry("mechanism", "sordino.privacy", Mechanism)


@dataclass(frozen=True, kw_only=True)
class OneSum:
    """The same single release in every round."""

    not_for_clients: ClassVar[str] = ""

    def stage(self, round_number: int) -> int:
        return 0

    def parts(self, noise_multiplier: float, *, bound: float, stage: int, expected_units: float) -> tuple[Part, ...]:
        return (Part(name=UPDATE, clip_bound=bound, noise_multiplier=noise_multiplier),)


@MECHANISMS.register("gaussian")
@dataclass(frozen=True, kw_only=True)
class Gaussian(OneSum):
    """Normal noise on an L2-bounded sum."""

    norm: ClassVar[Norm] = "l2"
    divisible: ClassVar[bool] = True
    noise: ClassVar[str] = "gaussian"

    def event(self, noise_multiplier: float) -> DpEvent:
        from sordino.privacy.event_kinds import GaussianDpEvent, NonPrivateDpEvent

        return GaussianDpEvent(noise_multiplier) if noise_multiplier > 0 else NonPrivateDpEvent()

    def draw(self, source: NoiseSource, like: Tensor, *, scale: float, stream: int) -> Tensor:
        noise = source.gaussian(like.numel(), std=scale, stream=stream, device=like.device, dtype=like.dtype)
        return noise.view_as(like)


@MECHANISMS.register("laplace")
@dataclass(frozen=True, kw_only=True)
class Laplace(OneSum):
    """Double-exponential noise on an L1-bounded sum; pure ε, no δ."""

    norm: ClassVar[Norm] = "l1"
    divisible: ClassVar[bool] = False
    noise: ClassVar[str] = "laplace"

    def event(self, noise_multiplier: float) -> DpEvent:
        from sordino.privacy.event_kinds import LaplaceDpEvent, NonPrivateDpEvent

        return LaplaceDpEvent(noise_multiplier) if noise_multiplier > 0 else NonPrivateDpEvent()

    def draw(self, source: NoiseSource, like: Tensor, *, scale: float, stream: int) -> Tensor:
        noise = source.laplace(like.numel(), scale=scale, stream=stream, device=like.device, dtype=like.dtype)
        return noise.view_as(like)
