"""What goes over the wire."""

from __future__ import annotations

from dataclasses import dataclass

BYTES_PER_NUMBER = 4


@dataclass
class Traffic:
    """Bytes, both ways."""

    up: int = 0
    down: int = 0
