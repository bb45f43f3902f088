"""The name of this machine's processor, under which what was measured on it is kept."""

from __future__ import annotations

import platform
from pathlib import Path

_FACTS = Path("/proc/cpuinfo")
_GENERATION = {"family": "cpu family", "model": "model"}


def processor() -> str:
    """As the system names it, with its generation, such as `AMD EPYC (family 26, model 2)`; the kind of machine where it has no name.

    Rented machines often hide the rest of the name, and an `AMD EPYC` may be one with AVX-512 or one without.
    """
    name = processor_fact("model name") or platform.processor() or platform.machine()
    generation = [f"{word} {found}" for word, key in _GENERATION.items() if (found := processor_fact(key))]
    return f"{name} ({', '.join(generation)})" if generation else name


def processor_fact(key: str) -> str | None:
    """What the system says of its first core under this key; None where it says nothing."""
    lines = _FACTS.read_text().splitlines() if _FACTS.exists() else []
    facts = (line.partition(":") for line in lines)
    return next((value.strip() for name, _, value in facts if name.strip() == key), None)
