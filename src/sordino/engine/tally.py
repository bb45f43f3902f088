"""Client updates on their way through the door: each clipped and noised, and counted where the clip follows a quantile."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from torch import Tensor

from sordino.core import Private, Released
from sordino.privacy.adaptive_clip import COUNT
from sordino.privacy.clipping import Clip, bound_sum, count_within

if TYPE_CHECKING:
    from sordino.privacy.door import Permit


@dataclass(kw_only=True)
class Tally:
    """The noisy sum of what was released so far, and the noisy count of updates within the clip."""

    clip: Clip
    like: Tensor
    counts: bool
    total: Released[Tensor] = field(init=False)
    count: Released[Tensor] = field(init=False)

    def __post_init__(self) -> None:
        self.total = Released.public(self.like.new_zeros(self.like.shape))
        self.count = Released.public(self.like.new_zeros(1))

    def add(self, permit: Permit, updates: list[Private[Tensor]]) -> Released[Tensor]:
        """Release the sum of these updates, and their count with it."""
        released = permit.release(bound_sum(updates, self.clip, like=self.like))
        self.total = self.total.plus(released)
        if self.counts:
            self.count = self.count.plus(permit.release(count_within(updates, self.clip, like=self.like), part=COUNT))
        return released

    def fill(self, permit: Permit, missing: int) -> None:
        """Noise for seats that stayed empty."""
        self.total = self.total.plus(permit.fill_seats(missing, self.like))
        if self.counts:
            self.count = self.count.plus(permit.fill_seats(missing, self.count.value, part=COUNT))
