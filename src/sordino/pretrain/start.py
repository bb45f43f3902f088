"""What a start does, and where starts are found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch

from sordino.core import Registry
from sordino.models import Net

Progress = Callable[[int, int], None]
"""Told how many steps of how many are done."""


@dataclass(frozen=True, kw_only=True)
class StartContext:
    """What a start may use: never private data."""

    shape: tuple[int, ...]
    classes: int
    seed: int
    device: torch.device
    folder: Path
    """Where relative paths of the experiment file begin."""
    progress: Progress


class Start(Protocol):
    """Gives a freshly built model its first weights, in place."""

    def prepare(self, net: Net, context: StartContext) -> None: ...


STARTS: Registry[type[Start]] = Registry("start", "sordino.pretrain")
