"""How large a data set may become when it is unpacked: a small file can claim or hold more than any memory takes."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import BinaryIO

from sordino.core import SordinoError

FALLBACK_BYTES = 16 << 30
"""The limit where the machine does not say how much memory it has."""


def most_bytes() -> int:
    """As much as the machine's memory: whatever is larger cannot be loaded anyway."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return FALLBACK_BYTES


def refuse_larger(path: Path | str, size: int) -> None:
    """Refuse to unpack something of this size, before memory is taken for it."""
    limit = most_bytes()
    if size > limit:
        raise SordinoError(
            f"{path} would take {size / 1e9:,.1f} GB when unpacked, but this machine's memory is {limit / 1e9:,.1f} GB; use a smaller "
            "set, or set [data.options] resize for images."
        )


class LimitedReader(io.RawIOBase):
    """A stream that refuses to give more bytes than memory holds."""

    def __init__(self, stream: BinaryIO, path: Path) -> None:
        self._stream, self._path, self._given = stream, path, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        content = self._stream.read(len(buffer))
        self._given += len(content)
        refuse_larger(self._path, self._given)
        buffer[: len(content)] = content
        return len(content)

    def close(self) -> None:
        self._stream.close()
        super().close()
