"""AdpClip: a clip bound that follows a quantile of the norms (arXiv:1905.03871)."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, ClassVar

from pydantic import Field

from sordino.privacy.batch import GradientBatch, Step
from sordino.privacy.clipping import Clip, bound_clipped, count_norms_within, count_within
from sordino.privacy.mechanisms import MECHANISMS, UPDATE, Gaussian, Part
from sordino.privacy.stages import Stages, multiples_and_others
from sordino.settings import AtLeastOne, Positive, Scale

if TYPE_CHECKING:
    from torch import Tensor

    from sordino.core import Bounded, Private
    from sordino.privacy.door import Permit

COUNT = "count within the clip"


@MECHANISMS.register("adaptive-clip")
@dataclass(frozen=True, kw_only=True)
class AdaptiveClip(Gaussian):
    """Gaussian, with a clip bound that follows a quantile of the norms (AdpClip); the count it needs is noised and charged.

    Formal guarantee: besides the sum, each batch releases how many of its norms are within the clip, a count that one unit
    moves by at most 1, with noise of standard deviation `count_noise` (by default a tenth of the expected batch). Both are
    one joint release. The next clip is made of the noisy count alone, so it may be known to all.
    """

    moves_clip: ClassVar[bool] = True
    clips_as_one: ClassVar[bool] = True

    quantile: Annotated[float, Field(ge=0, le=1)] = 0.5
    clip_learning_rate: Positive = 0.2
    count_noise: Scale | None = None
    every: AtLeastOne = 1
    """The clip moves in every so-manieth round, in all of its steps."""

    def stage(self, round_number: int) -> int:
        return min(1, round_number % self.every)

    def stages(self, rounds: range) -> Stages:
        return multiples_and_others(rounds, self.every)

    def parts(self, noise_multiplier: float, *, bound: float, stage: int, expected_units: float) -> tuple[Part, ...]:
        update = Part(name=UPDATE, clip_bound=bound, noise_multiplier=noise_multiplier)
        if stage:
            return (update,)
        spread = expected_units / 10 if self.count_noise is None else self.count_noise
        return (update, Part(name=COUNT, clip_bound=1.0, noise_multiplier=spread))

    def release_step(self, batch: GradientBatch, *, clip: Clip, permit: Permit) -> Step:
        """The sum, and how many gradients were within the clip; the noisy count moves the clip for the next step."""
        if permit.charged(COUNT) is None:
            return super().release_step(batch, clip=clip, permit=permit)
        found = batch.clipped_sum(clip)
        total = permit.release(bound_clipped(found, clip, units=batch.units)).value
        within = count_norms_within(found.map(attrgetter("norms")), clip, like=total)
        count = float(permit.release(within, part=COUNT).value)
        bound = self.next_bound(clip.bound, {COUNT: count}, batch.expected_units)
        return Step(total=total, clip=dataclasses.replace(clip, bound=bound))

    def besides_update(self, update: Private[Tensor], clip: Clip, *, like: Tensor) -> dict[str, Bounded]:
        return {COUNT: count_within(update, clip, like=like)}

    def next_bound(self, bound: float, released: Mapping[str, float], expected_units: float) -> float:
        """C·exp(−η(b̃ − quantile)): where more than the quantile's share lies within the clip, it shrinks."""
        if COUNT not in released:
            return bound
        return bound * math.exp(-self.clip_learning_rate * (released[COUNT] / expected_units - self.quantile))
