"""Train everything."""

from __future__ import annotations

from dataclasses import dataclass

from sordino.models import Net
from sordino.tuning.strategy import TUNINGS, Tuning


@TUNINGS.register("full")
@dataclass(frozen=True, kw_only=True)
class Full(Tuning):
    """Every parameter is trained and shared."""

    def trainable(self, net: Net) -> list[str]:
        return [name for name, _ in net.named_parameters()]
