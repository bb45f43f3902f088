"""The door: the one place where a bounded value is noised and released, after it was charged.

The server has a `Door`, which charges the ledger. A client has a `ClientDoor`, which cannot charge: it releases what a grant
allows, with noise from the client's own source.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import torch

from sordino.core import Bounded, Private, Released, SordinoError, mint, unwrap
from sordino.privacy.grant import Grant
from sordino.privacy.ledger import Ledger, Line
from sordino.privacy.mechanisms import MECHANISMS, UPDATE, Draw, Mechanism, Part
from sordino.privacy.streams import stream_id

if TYPE_CHECKING:
    from torch import Tensor

    from sordino.privacy.noise import NoiseSource


class Permit:
    """Releases what one grant allows, and not once more.

    Formal guarantee: noise has scale `noise_multiplier · clip_bound` of the charged line, whatever is inside; a value
    bounded otherwise than the line says is refused, and so is one release too many. Where the line says that the clip moves,
    the scale is the charged multiplier times the bound that the value itself carries.
    """

    def __init__(self, grant: Grant, mechanism: Mechanism, door: ClientDoor) -> None:
        self.grant = grant
        self._mechanism = mechanism
        self._door = door
        self._drawn: Counter[str] = Counter()

    def release(self, value: Bounded, part: str = UPDATE) -> Released[Tensor]:
        total, scale = self._spend(value, part)
        return mint(total + self._noise(total, scale, "release", part))

    def release_on_support(self, value: Bounded, support: Private[Tensor]) -> Released[Tensor]:
        """Noise on the support alone. The support itself then shows, so every view must have been charged infinity."""
        if not self.grant.uncovered:
            raise SordinoError(
                "Noise on a private support leaves the support uncovered, but the ledger charged a finite ε; "
                "choose a public mask, or noise on every coordinate."
            )
        total, scale = self._spend(value, UPDATE)
        return mint(total + self._noise(total, scale, "release", UPDATE) * unwrap(support))

    def fill_seats(self, missing: int, like: Tensor, part: str = UPDATE) -> Released[Tensor]:
        """Noise in place of the shares of seats that stayed empty, so that the total is always the same."""
        charged = self._charged(part)
        scale = _scale(charged.noise_multiplier, charged.clip_bound) * max(0, missing) ** 0.5
        return mint(self._noise(like, scale, "fill", part))

    def charged(self, part: str) -> Part | None:
        """The part of this name, if the line paid for one."""
        return next((charged for charged in self.grant.parts if charged.name == part), None)

    def _spend(self, value: Bounded, part: str) -> tuple[Tensor, float]:
        """Open a value that is bounded as the line says, count one of the releases, and say how much noise it needs."""
        grant, charged = self.grant, self._charged(part)
        moves = grant.moving_clip and part == UPDATE
        if value.norm != grant.norm or (value.bound > charged.clip_bound and not moves):
            raise SordinoError(
                f"The ledger charged for an {grant.norm} bound of {charged.clip_bound:g}, but got a value bounded by "
                f"{value.norm} {value.bound:g}; clip it to what was charged."
            )
        if self._drawn[part] >= grant.releases:
            raise SordinoError(
                f"Round {grant.round} was charged for {grant.releases} releases and asked for one more; charge the ledger first."
            )
        self._drawn[part] += 1
        self._door.zeroed += value.zeroed
        total: Tensor = unwrap(value)
        return total, _scale(charged.noise_multiplier, value.bound if moves else charged.clip_bound)

    def _charged(self, part: str) -> Part:
        found = self.charged(part)
        if found is None:
            raise SordinoError(
                f"Round {self.grant.round} was not charged for a release of the {part}; charge the ledger for it first."
            )
        return found

    def _noise(self, like: Tensor, scale: float, verb: str, part: str) -> Tensor:
        if scale == 0:
            return torch.zeros_like(like)
        grant = self.grant
        stream = stream_id("noise", grant.line, verb, part, self._drawn.total())
        wanted = Draw(
            scale=scale,
            stream=stream,
            round=grant.round,
            line=grant.line,
            attempt=grant.attempt,
            part=part,
            memory=self._door.memory,
        )
        return self._mechanism.draw(self._door.source, like, wanted)


def _scale(noise_multiplier: float, bound: float) -> float:
    """No noise at all without a multiplier, also where nothing is clipped and the bound is infinite."""
    return noise_multiplier * bound if noise_multiplier else 0.0


class ClientDoor:
    """Where bounded values leave: it has a source of noise, and no ledger to charge."""

    def __init__(self, source: NoiseSource) -> None:
        self.source = source
        self.memory: dict[str, Tensor] = {}
        """What mechanisms keep from round to round; as secret as the data."""
        self.zeroed = 0
        """Contributions that were not finite and so counted as zero: a number that is not private, for simulations."""

    def permit(self, grant: Grant, mechanism: Mechanism) -> Permit:
        """What draws the noise for this grant."""
        return Permit(grant, mechanism, self)


class Door(ClientDoor):
    """The server's door: charges the ledger, then grants."""

    def __init__(self, ledger: Ledger, source: NoiseSource) -> None:
        super().__init__(source)
        self.ledger = ledger

    def charge(self, line: Line) -> Grant:
        """Charge a line; what comes back may be shared out to clients, or used here."""
        return self.ledger.charge(line)

    def open(self, line: Line, mechanism: Mechanism | None = None) -> Permit:
        """Charge a line for a release by the server itself; without a mechanism, by plain noise of the line's kind."""
        return self.permit(self.charge(line), mechanism or MECHANISMS[line.mechanism]())
