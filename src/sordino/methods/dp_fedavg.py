"""DP-FedAvg: clipped client updates, noise at the server, in shares, or on every upload."""

from __future__ import annotations

from dataclasses import dataclass

from sordino.methods.averaging import Averaging
from sordino.methods.method import METHODS


@METHODS.register("dp-fedavg")
@dataclass(frozen=True, kw_only=True)
class DpFedAvg(Averaging):
    """Client-level DP: average of clipped, noised client updates (E local epochs, or FedSGD with full_batch).

    Formal guarantee: the model depends on the uploads through their noisy sum alone, over a fixed denominator.
    """
