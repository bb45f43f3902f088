"""What a tuning decides, and where tunings are found."""

from __future__ import annotations

from typing import Protocol

from sordino.core import Registry
from sordino.models import Net


class Tuning(Protocol):
    """Chooses the parameters that are trained; the others keep the values they started with."""

    def trainable(self, net: Net) -> list[str]: ...


TUNINGS: Registry[type[Tuning]] = Registry("tuning", "sordino.tuning")
