"""The name of this machine's processor, under which what was measured on it is kept."""

from __future__ import annotations

import platform
from pathlib import Path

_FACTS = Path("/proc/cpuinfo")


def processor() -> str:
    """As the system names it, such as `AMD EPYC`; the kind of machine where it has no name."""
    return processor_fact("model name") or platform.processor() or platform.machine()


def processor_fact(key: str) -> str | None:
    """What the system says of its first core under this key; None where it says nothing."""
    lines = _FACTS.read_text().splitlines() if _FACTS.exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(key)), None)
