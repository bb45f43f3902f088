"""What a tuning decides, and where tunings are found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from sordino.models import Net
from sordino.registry import Registry


class Tuning(Protocol):
    """Chooses the parameters that are trained; the others keep the values they started with.

    One that puts anything around the model inherits `Bridge`; one that trains more later on has `phases`, as `PhasedTuning` says.

    Example:
        see `sordino.tuning.head.Head`, or "Add a tuning" in CONTRIBUTING.md
    """

    def trainable(self, net: Net) -> list[str]:
        """Names of parameters of the net, of which only these are sent, clipped and noised."""
        ...


@dataclass(frozen=True, kw_only=True)
class Phase:
    """A stretch of rounds, from `first_round` on, in which the same parameters are trained."""

    first_round: int
    trainable: tuple[str, ...]


@runtime_checkable
class PhasedTuning(Tuning, Protocol):
    """A tuning that trains more of the model later on: each phase trains what the one before it did, and more."""

    def phases(self, net: Net, rounds: int) -> tuple[Phase, ...]: ...


TUNINGS: Registry[type[Tuning]] = Registry("tuning", "sordino.tuning", Tuning)


def phases_of(tuning: Tuning, net: Net, rounds: int) -> tuple[Phase, ...]:
    """The phases of a run of so many rounds, first to last; most tunings have one."""
    if isinstance(tuning, PhasedTuning):
        return tuning.phases(net, rounds)
    return (Phase(first_round=0, trainable=tuple(tuning.trainable(net))),)


def lengths(phases: tuple[Phase, ...], rounds: int) -> list[int]:
    """How many rounds each phase lasts."""
    begins = [phase.first_round for phase in phases]
    return [end - begin for begin, end in zip(begins, [*begins[1:], rounds], strict=True)]
