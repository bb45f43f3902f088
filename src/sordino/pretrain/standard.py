"""Start from ordinary training on public data."""

from __future__ import annotations

from dataclasses import dataclass

from sordino.pretrain.public_training import PublicTraining
from sordino.pretrain.start import STARTS


@STARTS.register("standard")
@dataclass(frozen=True, kw_only=True)
class Standard(PublicTraining):
    """SGD with momentum on a data set marked public."""
