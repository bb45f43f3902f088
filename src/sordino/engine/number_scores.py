"""How near a model comes to numbers: in their own unit, and as a share of their public range.

Figures of public rows, all but `closeness`, which charged evaluation sums over rows that stay private.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from sordino.data.target import Target, predicted_places
from sordino.gradients.losses import mean_loss

NAMES = ("rmse", "mae", "r2")
"""The figures by their names in metrics and summaries."""
EXACT_STEPS = 2**20
"""Closeness is rounded down to this share, so that sums of it are exact and one row moves a sum by no more than its own."""


def closeness(outputs: Tensor, targets: Tensor) -> Tensor:
    """For each row, one less its absolute error as a share of the range: 1 is right, 0 as wrong as can be.

    Formal guarantee: each number lies in [0, 1] and depends on its own row alone; an output that is no number counts as the lower
    bound. Sums of up to 2³² of them are exact.
    """
    near = (1 - (predicted_places(outputs) - targets.double()).abs()).clamp(0.0, 1.0)
    return (near * EXACT_STEPS).floor() / EXACT_STEPS


def number_scores(outputs: Tensor, targets: Tensor, target: Target) -> dict[str, Any]:
    """`rmse` and `mae` in the target's unit; `r2` beside the rows' own mean, None where all are alike; `loss` as in training."""
    places = predicted_places(outputs), targets.double()
    found, right = (torch.from_numpy(target.in_unit(part.numpy())) for part in places)
    errors = found - right
    spread = float((right - right.mean()).square().sum())
    loss = float(mean_loss(outputs.double(), targets.double()))
    return {
        "loss": loss if math.isfinite(loss) else None,
        "rmse": float(errors.square().mean().sqrt()),
        "mae": float(errors.abs().mean()),
        "r2": 1 - float(errors.square().sum()) / spread if spread else None,
    }
