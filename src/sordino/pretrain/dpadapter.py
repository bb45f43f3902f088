"""Start from DPAdapter's training on public data (arXiv:2403.02571)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from sordino.core import SordinoError
from sordino.pretrain.perturbed_training import PerturbedTraining
from sordino.pretrain.start import STARTS
from sordino.settings import AtLeastOne, NotNegative


@STARTS.register("dpadapter")
@dataclass(frozen=True, kw_only=True)
class DpAdapter(PerturbedTraining):
    """Each small batch's gradient is taken at weights that a large batch perturbed for the worse.

    A large batch finds the direction that hurts all examples, a small one keeps the step stochastic.
    """

    perturbation_radius: NotNegative = 2.0
    perturbation_batch: AtLeastOne = 5000

    def check_set(self, name: str, *, rows: int) -> None:
        if self.perturbation_batch > rows:
            raise SordinoError(
                f"[start] perturbation_batch asks for {self.perturbation_batch} examples, but the public set {name!r} "
                f"has {rows}; lower it."
            )

    def perturbation_rows(self, rows: Tensor, examples: int, generator: torch.Generator) -> Tensor | None:
        return torch.randperm(examples, generator=generator)[: self.perturbation_batch]
