"""Train the head first and everything after."""

from __future__ import annotations

from dataclasses import dataclass

from sordino.core import SordinoError
from sordino.models import Net
from sordino.tuning.full import Full
from sordino.tuning.head import Head
from sordino.tuning.strategy import TUNINGS, Phase, Tuning


@TUNINGS.register("unified")
@dataclass(frozen=True, kw_only=True)
class Unified(Tuning):
    """The head alone for `head_rounds` rounds, or for that share of them (0.25), then every parameter.

    While the head is trained, only its coordinates are noised and sent.
    """

    head_rounds: int | float = 0.5

    def trainable(self, net: Net) -> list[str]:
        return Full().trainable(net)

    def phases(self, net: Net, rounds: int) -> tuple[Phase, ...]:
        return head_then_all(net, first=switch_round(self.head_rounds, rounds), rounds=rounds)


def switch_round(head_rounds: int | float, rounds: int) -> int:
    """The first round in which everything is trained: a whole number of rounds, or a fraction of them."""
    share = isinstance(head_rounds, float)
    if not 0 <= head_rounds <= (1 if share else rounds):
        expected = "a share between 0.0 and 1.0" if share else f"between 0 and {rounds} rounds"
        raise SordinoError(
            f"[tuning] head_rounds takes {expected}, but got {head_rounds}; the head cannot be trained longer than the run lasts."
        )
    return round(head_rounds * rounds) if share else int(head_rounds)


def head_then_all(net: Net, *, first: int, rounds: int) -> tuple[Phase, ...]:
    """The head in rounds 0 to `first` − 1 and everything from `first` on; a phase without rounds is left out."""
    head = Phase(first_round=0, trainable=tuple(Head().trainable(net)))
    everything = Phase(first_round=first, trainable=tuple(Full().trainable(net)))
    return tuple(phase for phase, length in ((head, first), (everything, rounds - first)) if length)
