"""The door: the one place where a bounded value is charged, noised and released, in that order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from sordino.core import Bounded, Private, Released, SordinoError, mint, unwrap
from sordino.privacy.ledger import Ledger, Line
from sordino.privacy.mechanisms import MECHANISMS, Mechanism
from sordino.privacy.pricing import unbounded
from sordino.privacy.streams import stream_id

if TYPE_CHECKING:
    from torch import Tensor

    from sordino.privacy.noise import NoiseSource


class Permit:
    """Leave to release what one ledger line paid for, and not once more.

    Formal guarantee: noise has scale `noise_multiplier · clip_bound` of the charged line, whatever is inside; a value
    bounded otherwise than the line says is refused, and so is one release too many.
    """

    def __init__(self, line: Line, number: int, door: Door) -> None:
        self._line = line
        self._door = door
        self._number = number
        self._source = door.source
        self._mechanism: Mechanism = MECHANISMS[line.mechanism]()
        self._drawn = 0

    def release(self, value: Bounded) -> Released[Tensor]:
        total = self._spend(value)
        return mint(total + self._noise(total, 1.0, "release"))

    def release_on_support(self, value: Bounded, support: Private[Tensor]) -> Released[Tensor]:
        """Noise on the support alone. The support itself then shows, so every view must have been charged infinity."""
        if not all(unbounded(charge.event) for charge in self._line.charges):
            raise SordinoError(
                "Noise on a private support leaves the support uncovered, but the ledger charged a finite ε; "
                "choose a public mask, or noise on every coordinate."
            )
        total = self._spend(value)
        return mint(total + self._noise(total, 1.0, "release") * unwrap(support))

    def _spend(self, value: Bounded) -> Tensor:
        """Open a value that is bounded as the line says, and count one of the line's releases."""
        line = self._line
        if value.norm != line.norm or value.bound > line.clip_bound:
            raise SordinoError(
                f"The ledger charged for an {line.norm} bound of {line.clip_bound:g}, but a value bounded by "
                f"{value.norm} {value.bound:g} came; clip it to what was charged."
            )
        if self._drawn >= line.releases:
            raise SordinoError(
                f"Round {line.round} was charged for {line.releases} releases and asked for one more; charge the ledger first."
            )
        self._drawn += 1
        self._door.zeroed += value.zeroed
        total: Tensor = unwrap(value)
        return total

    def fill_seats(self, missing: int, like: Tensor) -> Released[Tensor]:
        """Noise in place of the shares of seats that stayed empty, so that the total is always the same."""
        return mint(self._noise(like, float(missing) ** 0.5, "fill") if missing > 0 else torch.zeros_like(like))

    def _noise(self, like: Tensor, shares: float, purpose: str) -> Tensor:
        if self._line.noise_multiplier == 0:
            return torch.zeros_like(like)
        scale = self._line.noise_multiplier * self._line.clip_bound * shares
        stream = stream_id("noise", self._number, purpose, self._drawn)
        return self._mechanism.draw(self._source, like, scale=scale, stream=stream)


class Door:
    """Charges the ledger, then grants the permit."""

    def __init__(self, ledger: Ledger, source: NoiseSource) -> None:
        self.ledger = ledger
        self.source = source
        self.zeroed = 0
        """Contributions that were not finite and so counted as zero: a number that is not private, for simulations."""

    def open(self, line: Line) -> Permit:
        return Permit(line, self.ledger.charge(line), self)
