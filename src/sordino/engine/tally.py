"""What came back from a cohort, added up: the noisy sum, and whatever else the mechanism releases with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from torch import Tensor

from sordino.core import Released
from sordino.privacy.clipping import Clip, sum_bounded
from sordino.privacy.mechanisms import UPDATE, Part

if TYPE_CHECKING:
    from sordino.engine.messages import Answer
    from sordino.privacy.door import Permit


@dataclass(kw_only=True)
class Tally:
    """One noisy total for each part that was charged."""

    clip: Clip
    like: Tensor
    """A tensor of an update's shape."""
    parts: Sequence[Part]
    totals: dict[str, Released[Tensor]] = field(init=False)

    def __post_init__(self) -> None:
        self.totals = {part.name: Released.public(self._zeros(part.name)) for part in self.parts}

    @property
    def update(self) -> Released[Tensor]:
        return self.totals[UPDATE]

    @property
    def besides(self) -> dict[str, float]:
        """What was released besides the sum: single numbers."""
        return {name: float(total.value) for name, total in self.totals.items() if name != UPDATE}

    def add(self, answer: Answer) -> None:
        """Values that a client released itself."""
        for name, value in answer.released.items():
            self.totals[name] = self.totals[name].plus(value)

    def release(self, permit: Permit, answers: Sequence[Answer]) -> None:
        """The noisy sums of values that clients handed out bounded."""
        for part in self.parts:
            clip = self.clip if part.name == UPDATE else Clip(bound=part.clip_bound, norm=self.clip.norm)
            values = [answer.bounded[part.name] for answer in answers]
            total = sum_bounded(values, clip, like=self._zeros(part.name))
            self.totals[part.name] = permit.release(total, part=part.name)

    def fill(self, permit: Permit, missing: int) -> None:
        """Noise for seats that stayed empty."""
        for name, total in self.totals.items():
            self.totals[name] = total.plus(permit.fill_seats(missing, self._zeros(name), part=name))

    def _zeros(self, part: str) -> Tensor:
        return self.like.new_zeros(self.like.shape if part == UPDATE else (1,))
