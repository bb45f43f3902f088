"""Mechanisms: which norm they need bounded, what noise they draw, what they release from one batch, and what it costs.

Most release one sum. Some release several values from the same batch, their `parts`; these are one joint release with the
multiplier (Σ zᵢ⁻²)^(−1/2), sampled once. Some change with the rounds, their `stage`; each round then has a price of its own.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from sordino.core import Norm, Private, Unit
from sordino.privacy.stages import Stages, counted_stages, one_stage
from sordino.registry import Registry

if TYPE_CHECKING:
    from torch import Tensor

    from sordino.core import Bounded
    from sordino.privacy.batch import GradientBatch, Step
    from sordino.privacy.clipping import Clip
    from sordino.privacy.door import Permit
    from sordino.privacy.event_kinds import DpEvent
    from sordino.privacy.noise import NoiseSource
    from sordino.privacy.pricing import Placement
    from sordino.privacy.samplers import CohortSampler

UPDATE = "update"
"""The part that every mechanism releases first."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """One of the values released from one batch: what bounds it, and its noise as a multiple of that bound."""

    name: str
    clip_bound: float
    noise_multiplier: float


@dataclass(frozen=True, kw_only=True)
class Draw:
    """Which noise is asked for."""

    scale: float
    """The noise multiplier times the bound."""
    stream: int
    """The name of the draw; with seeded noise, the same name gives the same values."""
    round: int = 0
    line: int = 0
    """The number of the ledger's line that was charged for it."""
    attempt: int = 0
    """Which time the run was taken up; with noise that cannot be repeated, lines of an earlier attempt may be lost."""
    part: str = UPDATE
    memory: dict[str, Tensor] = field(default_factory=dict)
    """What the mechanism keeps from round to round on this side: it may read and replace entries. Kept with the checkpoint, as
    secret as the data, and never published."""


@dataclass(frozen=True, kw_only=True)
class PublicExamples:
    """Public examples that a mechanism needs: a data source marked public, and how many of it."""

    source: Mapping[str, Any]
    count: int


@dataclass(frozen=True, kw_only=True)
class RunShape:
    """What is known of a run before its noise is worked out."""

    unit: Unit
    placement: Placement
    sampler: CohortSampler
    """Rounds, turns and rates."""
    protected: bool = True
    in_steps: bool = False
    """Whether noise is drawn inside clients' own steps, and not on uploads."""


@dataclass(frozen=True, kw_only=True)
class Mechanism(ABC):
    """Adds noise of scale `noise_multiplier` times the clip bound to a bounded sum.

    A frozen dataclass whose fields are the settings of `[privacy] mechanism`. A mechanism must say its norm, its noise and its
    event. Everything else has a default that suits a mechanism which treats all rounds alike and releases one sum.

    Example:
        see `Gaussian` in this file: `draw` draws what `event` tells the accountant
    """

    norm: ClassVar[Norm]
    divisible: ClassVar[bool]
    """Whether independent shares add up to the mechanism's own noise."""
    noise: ClassVar[str]
    """The kind of noise by the name it has in ledger lines."""
    not_for_clients: ClassVar[str] = ""
    """Why client updates cannot go through it, or nothing where they can."""
    moves_clip: ClassVar[bool] = False
    """Whether the clip may move from one release to the next."""
    clips_as_one: ClassVar[bool] = False
    """Whether it needs gradients clipped as one, and not group by group."""

    weighs_turns: ClassVar[bool] = False
    """Whether a plan should weigh what clients' turns cost against what they gain."""

    @abstractmethod
    def event(self, noise_multiplier: float) -> DpEvent:
        """What one release with this multiplier costs, as an event of dp-accounting."""

    @abstractmethod
    def draw(self, source: NoiseSource, like: Tensor, wanted: Draw) -> Tensor:
        """Noise of the shape, type and device of `like`."""

    def for_run(self, run: RunShape) -> Mechanism:
        """The same mechanism with every setting worked out for this run; raises `SordinoError` where it does not suit it."""
        return self

    def plan_facts(self, noise_multiplier: float, run: RunShape) -> dict[str, str]:
        """What a plan should say of this mechanism besides noise and cost."""
        return {}

    @property
    def kept_vectors(self) -> int:
        """How many vectors as long as the update it keeps from round to round."""
        return 0

    def sum_error(self, rounds: int) -> float:
        """How far the noise of rounds that are added up strays, in multiples of one release's: root mean square over rounds."""
        return math.sqrt((rounds + 1) / 2)

    def public_examples(self) -> PublicExamples | None:
        """The public examples it needs, if any."""
        return None

    def stage(self, round_number: int) -> int:
        """Rounds of the same stage cost the same."""
        return 0

    def stages(self, rounds: range) -> Stages:
        """The stages among these rounds. Where millions of rounds should be planned, say it without counting them."""
        same = type(self).stage is Mechanism.stage
        return one_stage(rounds) if same else counted_stages(self.stage, rounds)

    def parts(self, noise_multiplier: float, *, bound: float, stage: int, expected_units: float) -> tuple[Part, ...]:
        """What is released from a batch of so many expected units, at the run's noise multiplier."""
        return (Part(name=UPDATE, clip_bound=bound, noise_multiplier=noise_multiplier),)

    def release_step(self, batch: GradientBatch, *, clip: Clip, permit: Permit) -> Step:
        """Bound and release one batch of examples' gradients; the default releases the sum of clipped gradients."""
        from sordino.privacy.batch import Step
        from sordino.privacy.clipping import bound_clipped

        bounded = bound_clipped(batch.clipped_sum(clip), clip, units=batch.units)
        return Step(total=permit.release(bounded).value, clip=clip)

    def besides_update(self, update: Private[Tensor], clip: Clip, *, like: Tensor) -> dict[str, Bounded]:
        """What one client's upload holds besides its update: a bounded value for each further part."""
        return {}

    def next_bound(self, bound: float, released: Mapping[str, float], expected_units: float) -> float:
        """The clip bound of the next release, from what was released besides the sum."""
        return bound


MECHANISMS: Registry[type[Mechanism]] = Registry("mechanism", "sordino.privacy", Mechanism)


@MECHANISMS.register("gaussian")
@dataclass(frozen=True, kw_only=True)
class Gaussian(Mechanism):
    """Normal noise on an L2-bounded sum."""

    norm: ClassVar[Norm] = "l2"
    divisible: ClassVar[bool] = True
    noise: ClassVar[str] = "gaussian"

    def event(self, noise_multiplier: float) -> DpEvent:
        from sordino.privacy.event_kinds import GaussianDpEvent, NonPrivateDpEvent

        return GaussianDpEvent(noise_multiplier) if noise_multiplier > 0 else NonPrivateDpEvent()

    def draw(self, source: NoiseSource, like: Tensor, wanted: Draw) -> Tensor:
        noise = source.gaussian(
            like.numel(), std=wanted.scale, stream=wanted.stream, device=like.device, dtype=like.dtype
        )
        return noise.view_as(like)


@MECHANISMS.register("laplace")
@dataclass(frozen=True, kw_only=True)
class Laplace(Mechanism):
    """Double-exponential noise on an L1-bounded sum; pure ε, no δ."""

    norm: ClassVar[Norm] = "l1"
    divisible: ClassVar[bool] = False
    noise: ClassVar[str] = "laplace"

    def event(self, noise_multiplier: float) -> DpEvent:
        from sordino.privacy.event_kinds import LaplaceDpEvent, NonPrivateDpEvent

        return LaplaceDpEvent(noise_multiplier) if noise_multiplier > 0 else NonPrivateDpEvent()

    def draw(self, source: NoiseSource, like: Tensor, wanted: Draw) -> Tensor:
        noise = source.laplace(
            like.numel(), scale=wanted.scale, stream=wanted.stream, device=like.device, dtype=like.dtype
        )
        return noise.view_as(like)
