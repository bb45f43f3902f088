"""What a start does, and where starts are found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch

from sordino.core import Registry
from sordino.data.source import Source
from sordino.models import Net

Progress = Callable[[int, int], None]
"""Told how many steps of how many are done."""

Build = Callable[[int, int], Net]
"""The experiment's model with so many classes, from this seed."""


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
    model: dict[str, Any]
    build: Build
    refuse_overlap: Callable[[Source], None]
    """Raises where a public set shares examples with the private one."""


class Start(Protocol):
    """Gives a freshly built model its first weights, in place."""

    def prepare(self, net: Net, context: StartContext) -> None: ...


STARTS: Registry[type[Start]] = Registry("start", "sordino.pretrain")
