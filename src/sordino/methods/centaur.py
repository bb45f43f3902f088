"""CENTAUR (DP-FedRep): a shared private extractor under personal heads."""

from __future__ import annotations

from dataclasses import dataclass

from sordino.methods.method import METHODS
from sordino.methods.two_phase import TwoPhase


@METHODS.register("centaur")
@dataclass(frozen=True, kw_only=True)
class Centaur(TwoPhase):
    """Client-level DP with personal heads: each client tunes its head, then the shared extractor under it (DP-FedRep)."""
