"""Additive mechanisms: which norm they need bounded, what noise they draw, and what the accountant is told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from sordino.core import Norm, Registry

if TYPE_CHECKING:
    from torch import Tensor

    from sordino.privacy.event_kinds import DpEvent
    from sordino.privacy.noise import NoiseSource


class Mechanism(Protocol):
    """Adds noise of scale `noise_multiplier` times the clip bound to a bounded sum."""

    norm: Norm
    divisible: bool
    """Whether independent shares add up to the mechanism's own noise."""

    def event(self, noise_multiplier: float) -> DpEvent: ...

    def draw(self, source: NoiseSource, like: Tensor, *, scale: float, stream: int) -> Tensor: ...


MECHANISMS: Registry[type[Mechanism]] = Registry("mechanism", "sordino.privacy")


@MECHANISMS.register("gaussian")
class Gaussian:
    """Normal noise on an L2-bounded sum."""

    norm: Norm = "l2"
    divisible = True

    def event(self, noise_multiplier: float) -> DpEvent:
        from sordino.privacy.event_kinds import GaussianDpEvent, NonPrivateDpEvent

        return GaussianDpEvent(noise_multiplier) if noise_multiplier > 0 else NonPrivateDpEvent()

    def draw(self, source: NoiseSource, like: Tensor, *, scale: float, stream: int) -> Tensor:
        noise = source.gaussian(like.numel(), std=scale, stream=stream, device=like.device, dtype=like.dtype)
        return noise.view_as(like)


@MECHANISMS.register("laplace")
class Laplace:
    """Double-exponential noise on an L1-bounded sum; pure ε, no δ."""

    norm: Norm = "l1"
    divisible = False

    def event(self, noise_multiplier: float) -> DpEvent:
        from sordino.privacy.event_kinds import LaplaceDpEvent, NonPrivateDpEvent

        return LaplaceDpEvent(noise_multiplier) if noise_multiplier > 0 else NonPrivateDpEvent()

    def draw(self, source: NoiseSource, like: Tensor, *, scale: float, stream: int) -> Tensor:
        noise = source.laplace(like.numel(), scale=scale, stream=stream, device=like.device, dtype=like.dtype)
        return noise.view_as(like)
