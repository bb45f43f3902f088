"""What a check found: all is well, something to know, or something to mend."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from sordino.core import SordinoError

Level = Literal["ok", "note", "wrong"]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One sentence about one thing."""

    what: str
    level: Level
    sentence: str


def checked(what: str, check: Callable[[], str]) -> Finding:
    """What a check says where all is well, or the reason that it raises."""
    try:
        return Finding(what=what, level="ok", sentence=check())
    except SordinoError as error:
        return Finding(what=what, level="wrong", sentence=str(error))
