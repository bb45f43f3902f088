"""Data sets that a Python program holds in memory: frames, arrays and torch data sets, by a name that begins with `memory:`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from sordino.core import SordinoError

if TYPE_CHECKING:
    from sordino.data.raw import Raw
    from sordino.data.settings import SourceSettings

PREFIX = "memory:"

Reader = Callable[["SourceSettings"], "Raw"]
"""Makes of an object what a format makes of a file."""

_HELD: ContextVar[Mapping[str, Reader] | None] = ContextVar("held", default=None)


@contextmanager
def holding(readers: Mapping[str, Reader]) -> Iterator[None]:
    """Inside, these data sets can be loaded by their names."""
    token = _HELD.set({**(_HELD.get() or {}), **readers})
    try:
        yield
    finally:
        _HELD.reset(token)


def is_held(source: str) -> bool:
    """Whether a name means an object in memory."""
    return source.startswith(PREFIX)


def held(source: str) -> Reader:
    """How the object of this name is read."""
    found = (_HELD.get() or {}).get(source)
    if found is None:
        raise SordinoError(
            f"The data set {source!r} was an object of a Python program, but none is at hand here; call the same "
            "sordino.Experiment again, with resume=True where a run is to go on."
        )
    return found
