"""Start from DPAdapter's training on public data (arXiv:2403.02571)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from sordino.core import SordinoError
from sordino.data.source import Source
from sordino.pretrain.perturbation import Ball
from sordino.pretrain.public_training import PublicTraining
from sordino.pretrain.start import STARTS
from sordino.settings import AtLeastOne, NotNegative, NotNegativeCount, Positive


@STARTS.register("dpadapter")
@dataclass(frozen=True, kw_only=True)
class DpAdapter(PublicTraining):
    """Each small batch's gradient is taken at weights that a large batch perturbed for the worse.

    A large batch finds the direction that hurts all examples, a small one keeps the step stochastic. Ordinary training
    comes first, for `warmup_epochs` of the `epochs`.
    """

    perturbation_radius: NotNegative = 2.0
    perturbation_rate: Positive = 1.0
    perturbation_batch: AtLeastOne = 5000
    warmup_epochs: NotNegativeCount = 0

    def check(self, source: Source) -> None:
        if self.perturbation_batch > len(source.train):
            raise SordinoError(
                f"[start] perturbation_batch asks for {self.perturbation_batch} examples, but the public set {source.name!r} "
                f"has {len(source.train)}; lower it."
            )

    def perturbation_rows(self, rows: Tensor, examples: int, generator: torch.Generator) -> Tensor | None:
        return torch.randperm(examples, generator=generator)[: self.perturbation_batch]

    @property
    def ball(self) -> Ball:
        return Ball(radius=self.perturbation_radius, rate=self.perturbation_rate)

    @property
    def plain_epochs(self) -> int:
        return self.warmup_epochs
