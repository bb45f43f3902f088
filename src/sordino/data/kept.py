"""Files that were read stay in memory while many runs of one process need them, as in a sweep."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path

from sordino.data.raw import Raw, Split
from sordino.data.settings import SourceSettings

MOST = 3
"""Sources that are kept at once; the one that was read first goes first."""

Key = tuple[Path, int, int, str]
_KEPT: ContextVar[dict[Key, Raw] | None] = ContextVar("kept", default=None)


@contextmanager
def keeping() -> Iterator[None]:
    """Inside, a file that has not changed is read once for all who read it in the same way."""
    if _KEPT.get() is not None:
        yield
        return
    token = _KEPT.set({})
    try:
        yield
    finally:
        _KEPT.reset(token)


def kept(path: Path, settings: SourceSettings, read: Callable[[Path, SourceSettings], Raw]) -> Raw:
    """What `read` makes of a file, or made of it before. Folders are read anew: a change in them cannot be seen from outside."""
    held = _KEPT.get()
    if held is None or not path.is_file():
        return read(path, settings)
    now = path.stat()
    key = (path.resolve(), now.st_mtime_ns, now.st_size, repr(settings))
    if key not in held:
        raw = read(path, settings)
        while len(held) >= MOST:
            del held[next(iter(held))]
        held[key] = dataclasses.replace(raw, train=_once(raw.train), test=raw.test and _once(raw.test))
    return held[key]


def _once(split: Split) -> Split:
    return dataclasses.replace(split, labels=cache(split.labels), inputs=cache(split.inputs))
