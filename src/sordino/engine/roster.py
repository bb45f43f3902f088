"""Who takes part: all that the server's side may know of clients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Roster:
    """The clients of a run by number, with what each has declared public. Nobody's rows are here.

    Example:
        >>> Roster(sizes=(120, 80), names=("north", "south")).name(1)
        'south'
    """

    sizes: Sequence[int]
    """Rows that each client trains on."""
    held_out: Sequence[int] = ()
    """Rows that each keeps from training, where evaluation is charged."""
    names: Sequence[str] = ()
    """What clients are called, if they have names."""

    @property
    def clients(self) -> int:
        return len(self.sizes)

    def name(self, client: int) -> str:
        return self.names[client] if self.names else f"client {client}"
