"""The door: the one place where a bounded value is charged, noised and released, in that order."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import torch

from sordino.core import Bounded, Private, Released, SordinoError, mint, unwrap
from sordino.privacy.ledger import Ledger, Line
from sordino.privacy.mechanisms import MECHANISMS, UPDATE, Mechanism, Part
from sordino.privacy.pricing import unbounded
from sordino.privacy.streams import stream_id

if TYPE_CHECKING:
    from torch import Tensor

    from sordino.privacy.noise import NoiseSource


class Permit:
    """Leave to release what one ledger line paid for, and not once more.

    Formal guarantee: noise has scale `noise_multiplier · clip_bound` of the charged line, whatever is inside; a value
    bounded otherwise than the line says is refused, and so is one release too many. Where the line says that the clip moves,
    the scale is the charged multiplier times the bound that the value itself carries.
    """

    def __init__(self, line: Line, number: int, door: Door) -> None:
        self._line = line
        self._door = door
        self._number = number
        self._source = door.source
        self._mechanism: Mechanism = MECHANISMS[line.mechanism]()
        self._drawn: Counter[str] = Counter()

    def release(self, value: Bounded, part: str = UPDATE) -> Released[Tensor]:
        total, scale = self._spend(value, part)
        return mint(total + self._noise(total, scale, _purpose("release", part)))

    def release_on_support(self, value: Bounded, support: Private[Tensor]) -> Released[Tensor]:
        """Noise on the support alone. The support itself then shows, so every view must have been charged infinity."""
        if not all(unbounded(charge.event) for charge in self._line.charges):
            raise SordinoError(
                "Noise on a private support leaves the support uncovered, but the ledger charged a finite ε; "
                "choose a public mask, or noise on every coordinate."
            )
        total, scale = self._spend(value, UPDATE)
        return mint(total + self._noise(total, scale, "release") * unwrap(support))

    def _spend(self, value: Bounded, part: str) -> tuple[Tensor, float]:
        """Open a value that is bounded as the line says, count one of the line's releases, and say how much noise it needs."""
        line, charged = self._line, self._charged(part)
        moves = line.moving_clip and part == UPDATE
        if value.norm != line.norm or (value.bound > charged.clip_bound and not moves):
            raise SordinoError(
                f"The ledger charged for an {line.norm} bound of {charged.clip_bound:g}, but got a value bounded by "
                f"{value.norm} {value.bound:g}; clip it to what was charged."
            )
        if self._drawn[part] >= line.releases:
            raise SordinoError(
                f"Round {line.round} was charged for {line.releases} releases and asked for one more; charge the ledger first."
            )
        self._drawn[part] += 1
        self._door.zeroed += value.zeroed
        total: Tensor = unwrap(value)
        return total, _scale(charged.noise_multiplier, value.bound if moves else charged.clip_bound)

    def fill_seats(self, missing: int, like: Tensor, part: str = UPDATE) -> Released[Tensor]:
        """Noise in place of the shares of seats that stayed empty, so that the total is always the same."""
        charged = self._charged(part)
        scale = _scale(charged.noise_multiplier, charged.clip_bound) * max(0, missing) ** 0.5
        return mint(self._noise(like, scale, _purpose("fill", part)))

    def _charged(self, part: str) -> Part:
        for charged in self._line.parts:
            if charged.name == part:
                return charged
        raise SordinoError(
            f"Round {self._line.round} was not charged for a release of the {part}; charge the ledger for it first."
        )

    def _noise(self, like: Tensor, scale: float, purpose: str) -> Tensor:
        if scale == 0:
            return torch.zeros_like(like)
        stream = stream_id("noise", self._number, purpose, self._drawn.total())
        return self._mechanism.draw(self._source, like, scale=scale, stream=stream)


def _scale(noise_multiplier: float, bound: float) -> float:
    """No noise at all without a multiplier, also where nothing is clipped and the bound is infinite."""
    return noise_multiplier * bound if noise_multiplier else 0.0


def _purpose(verb: str, part: str) -> str:
    return verb if part == UPDATE else f"{verb} {part}"


class Door:
    """Charges the ledger, then grants the permit."""

    def __init__(self, ledger: Ledger, source: NoiseSource) -> None:
        self.ledger = ledger
        self.source = source
        self.zeroed = 0
        """Contributions that were not finite and so counted as zero: a number that is not private, for simulations."""

    def open(self, line: Line) -> Permit:
        number = self.ledger.charge(line)
        return Permit(self.ledger.lines[number], number, self)
