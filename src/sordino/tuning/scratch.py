"""Train everything from random weights."""

from __future__ import annotations

from dataclasses import dataclass

from sordino.core import SordinoError
from sordino.models import Net
from sordino.models.weights import normalised_by_groups
from sordino.tuning.strategy import TUNINGS, Tuning
from sordino.tuning.task import Task


@TUNINGS.register("scratch")
@dataclass(frozen=True, kw_only=True)
class Scratch(Tuning):
    """Every parameter is trained from random weights; stored statistics, of which there are none, give way to GroupNorm."""

    def check_start(self, start: str) -> None:
        if start != "scratch":
            raise SordinoError(
                f"tuning = 'scratch' begins with random weights, but [start] is {start!r}; "
                "remove [start], or choose tuning = 'full'."
            )

    def wrap(self, net: Net, task: Task, *, seed: int) -> Net:
        return normalised_by_groups(net)

    def trainable(self, net: Net) -> list[str]:
        return [name for name, _ in net.named_parameters()]
