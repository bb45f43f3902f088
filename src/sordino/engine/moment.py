"""What whoever watches a run is told while it goes on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Moment:
    """What an onlooker at the terminal is told after each round."""

    stage: str
    done: int
    total: int
    accuracy: float | None = None
    epsilon: float | None = None
    note: str = ""
    """A sentence to keep on the screen."""


Watcher = Callable[[Moment], None]
