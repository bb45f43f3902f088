"""Start from sharpness-aware training on public data."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from sordino.pretrain.perturbation import Ball
from sordino.pretrain.public_training import PublicTraining
from sordino.pretrain.start import STARTS
from sordino.settings import NotNegative, NotNegativeCount, Positive


@STARTS.register("sam")
@dataclass(frozen=True, kw_only=True)
class Sam(PublicTraining):
    """Each step's gradient is taken at weights that the same batch perturbed for the worse (SAM, AMP).

    The perturbation is `perturbation_rate` times the gradient, at most `perturbation_radius` long. Both are 1 by default, the
    best values of DPAdapter's authors for SAM.
    """

    perturbation_radius: NotNegative = 1.0
    perturbation_rate: Positive = 1.0
    warmup_epochs: NotNegativeCount = 0

    def perturbation_rows(self, rows: Tensor, examples: int, generator: torch.Generator) -> Tensor | None:
        return rows

    @property
    def ball(self) -> Ball:
        return Ball(radius=self.perturbation_radius, rate=self.perturbation_rate)

    @property
    def plain_epochs(self) -> int:
        return self.warmup_epochs
