"""Where relative paths of an experiment begin: in the folder of its file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

_BESIDE: ContextVar[Path | None] = ContextVar("beside", default=None)


@contextmanager
def relative_to(folder: Path) -> Iterator[None]:
    """Inside, relative paths begin in this folder, the one of the experiment file; what is not there is looked for as before."""
    token = _BESIDE.set(folder)
    try:
        yield
    finally:
        _BESIDE.reset(token)


def beside(path: str | Path) -> Path:
    """A path as the experiment file means it."""
    return (_BESIDE.get() or Path()) / Path(path).expanduser()
