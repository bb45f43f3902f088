"""Coins that decide who is drawn: named like all randomness, and fresh where a draw is made again under its old name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from sordino.privacy.streams import stream_id

if TYPE_CHECKING:
    from torch import Tensor


class Coins(Protocol):
    """Where draws of cohorts and batches come from; every noise source is one."""

    def uniform(self, size: int, *, stream: int) -> Tensor:
        """Independent values in [0, 1), in double precision."""
        ...


@dataclass(frozen=True, kw_only=True)
class FreshCoins:
    """The same coins under other names.

    Formal guarantee: what is drawn here is independent of what is drawn under the old names. Two releases from one draw
    are one joint release, and cost more than two that each have a draw of their own.
    """

    coins: Coins
    repeat: int
    """How often the draw was made before."""

    def uniform(self, size: int, *, stream: int) -> Tensor:
        return self.coins.uniform(size, stream=stream_id("again", self.repeat, stream))
