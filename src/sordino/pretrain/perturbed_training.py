"""Public training whose steps look at weights that were perturbed for the worse: what SAM and DPAdapter share."""

from __future__ import annotations

from dataclasses import dataclass

from sordino.pretrain.perturbation import Ball
from sordino.pretrain.public_training import PublicTraining
from sordino.settings import NotNegative, NotNegativeCount, Positive


@dataclass(frozen=True, kw_only=True)
class PerturbedTraining(PublicTraining):
    """The perturbation is `perturbation_rate` times a gradient, at most `perturbation_radius` long.

    Ordinary training comes first, for `warmup_epochs` of the `epochs`.
    """

    perturbation_radius: NotNegative = 1.0
    perturbation_rate: Positive = 1.0
    warmup_epochs: NotNegativeCount = 0

    @property
    def ball(self) -> Ball:
        return Ball(radius=self.perturbation_radius, rate=self.perturbation_rate)

    @property
    def plain_epochs(self) -> int:
        return self.warmup_epochs
