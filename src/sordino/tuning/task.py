"""What a classifier is for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Task:
    """The shape of one example, and how many classes there are."""

    shape: tuple[int, ...]
    classes: int
