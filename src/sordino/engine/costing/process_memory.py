"""How much memory this process holds, and held at most, as the operating system counts it."""

from __future__ import annotations

import os
import resource
import sys
from contextlib import suppress
from pathlib import Path

from sordino.engine.simulate.allocator import hand_back

_STATUS, _STATM, _CLEAR = Path("/proc/self/status"), Path("/proc/self/statm"), Path("/proc/self/clear_refs")


def resident() -> int:
    """Bytes in memory now; where the system does not say, the most there ever were."""
    try:
        return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return _most_ever()


def peak() -> int:
    """The most bytes in memory at once since the last `forget_peak`, or ever where that cannot be forgotten."""
    try:
        (line,) = (one for one in _STATUS.read_text().splitlines() if one.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        return _most_ever()


def forget_peak() -> None:
    """Hand freed memory back, and count the peak from what is held now."""
    hand_back()
    with suppress(OSError):
        _CLEAR.write_text("5")


def _most_ever() -> int:
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024
