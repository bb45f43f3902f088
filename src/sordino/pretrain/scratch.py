"""Start from random weights."""

from __future__ import annotations

from dataclasses import dataclass

from sordino.models import Net
from sordino.pretrain.start import STARTS, Start, StartContext


@STARTS.register("scratch")
@dataclass(frozen=True, kw_only=True)
class Scratch(Start):
    """Random weights, from the experiment's seed."""

    def prepare(self, net: Net, context: StartContext) -> None:
        """The model was built with them."""
