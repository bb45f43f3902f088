"""The machine that figures come from: what it is, how fast its clock runs, and whether anybody else is at work on it."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import time
from pathlib import Path
from typing import Any

from sordino.processor import processor, processor_fact

PACKAGES = ("torch", "numpy", "scipy", "dp-accounting", "cryptography")
BUSY = 0.15
"""Cores' worth of other work above which ratios are not judged."""

_LOOK_SECONDS = 2.0


def machine() -> dict[str, Any]:
    versions = {name: importlib.metadata.version(name) for name in PACKAGES}
    return {
        "cores": os.cpu_count(),
        "processor": processor(),
        "clock MHz": _clock(),
        "load": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        **versions,
    }


def busy_cores() -> float | None:
    """How many cores others keep busy at this moment, by the system's own count; None where it has none."""
    before = _ticks()
    time.sleep(_LOOK_SECONDS)
    after = _ticks()
    if before is None or after is None:
        return None
    total, idle = (late - early for late, early in zip(after, before, strict=True))
    return (os.cpu_count() or 1) * (1 - idle / total) if total else 0.0


def _clock() -> float | None:
    found = processor_fact("cpu MHz")
    return round(float(found)) if found else None


def _ticks() -> tuple[int, int] | None:
    """All ticks of all cores so far, and the idle ones among them."""
    counts = Path("/proc/stat")
    if not counts.exists():
        return None
    numbers = [int(word) for word in counts.read_text().splitlines()[0].split()[1:9]]
    return sum(numbers), numbers[3] + numbers[4]
