"""A grant: leave to release what one line of the ledger has paid for, as plain data that can travel to a client."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from sordino.core import Norm, Unit
from sordino.privacy.events import from_json, to_json
from sordino.privacy.mechanisms import Part
from sordino.privacy.pricing import Charge, unbounded

if TYPE_CHECKING:
    from sordino.privacy.line import Line


@dataclass(frozen=True, kw_only=True)
class Grant:
    """What may be released, by whom, how much noise it needs, and what it was charged.

    It is made by `Ledger.charge` after the line is on disk. It is a permission and no capability to charge: it holds neither
    the ledger nor a source of noise, so it may be sent to a client, who draws the noise.

    Example:
        >>> grant = ledger.charge(line)       # the line is durable now
        >>> grant.share(7).client             # the part of client 7, to be sent there
        7
    """

    run: str
    """Which run it belongs to."""
    line: int
    """The number of the ledger's line, from 0."""
    attempt: int
    """Which time the run was taken up when the line was charged."""
    round: int
    label: str
    unit: Unit
    client: int | None
    """Whose grant it is; None for the server."""
    norm: Norm
    parts: tuple[Part, ...]
    """Each value that may be released, with its bound and its noise as a multiple of that."""
    releases: int
    """How many noisy values of each part may be released."""
    moving_clip: bool = False
    """Whether noise is scaled to the bound that each value carries, because the clip moves from release to release."""
    charges: tuple[Charge, ...]
    """What it costs in each view; a client adds this to the ledger of its own."""

    @staticmethod
    def of(line: Line, number: int, *, run: str) -> Grant:
        """The grant of a whole line, for the server."""
        return Grant(
            run=run,
            line=number,
            attempt=line.attempt,
            round=line.round,
            label=line.label,
            unit=line.unit,
            client=None,
            norm=line.norm,
            parts=line.parts,
            releases=line.releases,
            moving_clip=line.moving_clip,
            charges=line.charges,
        )

    def share(self, client: int, releases: int = 1) -> Grant:
        """The part of it that one client may use."""
        return Grant(**{**vars(self), "client": client, "releases": releases})

    @property
    def nonce(self) -> str:
        """A name that no other grant has; whoever keeps the names of spent grants spends none twice."""
        owner = "server" if self.client is None else str(self.client)
        name = "\x1f".join((self.run, str(self.line), str(self.attempt), owner))
        return blake2b(name.encode(), digest_size=16).hexdigest()

    @property
    def uncovered(self) -> bool:
        """Whether no finite ε was charged in any view."""
        return all(unbounded(charge.event) for charge in self.charges)

    def to_json(self) -> dict[str, Any]:
        """As JSON; `from_json` gives the same grant back."""
        charges = [{**vars(charge), "event": to_json(charge.event)} for charge in self.charges]
        parts = [{**vars(part), "clip_bound": _finite(part.clip_bound)} for part in self.parts]
        return {**vars(self), "parts": parts, "charges": charges}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Grant:
        charges = tuple(Charge(**{**charge, "event": from_json(charge["event"])}) for charge in data["charges"])
        parts = tuple(Part(**{**part, "clip_bound": float(part["clip_bound"])}) for part in data["parts"])
        return Grant(**{**data, "parts": parts, "charges": charges})


def _finite(bound: float) -> float | str:
    """JSON has no infinity."""
    return bound if math.isfinite(bound) else "inf"
