"""Start from sharpness-aware training on public data."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from sordino.pretrain.perturbed_training import PerturbedTraining
from sordino.pretrain.start import STARTS


@STARTS.register("sam")
@dataclass(frozen=True, kw_only=True)
class Sam(PerturbedTraining):
    """Each step's gradient is taken at weights that the same batch perturbed for the worse (SAM, AMP).

    Rate and radius of the perturbation are 1 by default, the best values of DPAdapter's authors for SAM.
    """

    def perturbation_rows(self, rows: Tensor, examples: int, generator: torch.Generator) -> Tensor | None:
        return rows
