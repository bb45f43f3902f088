"""SGD inside one client whose every step goes through the door: per-example clipping, noise, then the step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from sordino.core import Released
from sordino.methods.context import PublicContext
from sordino.methods.jobs import StepRelease
from sordino.settings import AtLeastOne, Momentum, NotNegative, Positive

FULL_BATCH_CHUNK = 512
"""Rows whose gradients are held in memory at once where a batch is all there is and nothing else was asked."""


@dataclass(frozen=True, kw_only=True)
class NoisySgd:
    """`local_steps` on fresh Poisson batches of the client's own rows; batch_size = "full" takes all rows every time.

    Formal guarantee: each step releases a sum over a fresh Poisson batch of one owner's rows, each row's gradient clipped,
    divided by the expected batch. Momentum and weight decay are post-processing.
    """

    local_steps: AtLeastOne = 1
    batch_size: AtLeastOne | Literal["full"] = 256
    learning_rate: Positive = 0.1
    momentum: Momentum = 0.0
    """Acts from one local step to the next; every turn begins at rest."""
    weight_decay: NotNegative = 0.0
    physical_batch: AtLeastOne | None = None

    def rate(self, examples: int) -> float:
        return 1.0 if self.batch_size == "full" else min(1.0, self.batch_size / examples)

    @property
    def chunk(self) -> int | None:
        """How many rows' gradients are held in memory at once; None for a whole batch."""
        return self.physical_batch or (FULL_BATCH_CHUNK if self.batch_size == "full" else None)

    def workload(self, examples: int) -> tuple[int, int]:
        return max(1, round(self.rate(examples) * examples)), self.local_steps

    def run(self, start: Released[Tensor], context: PublicContext, *, release: StepRelease) -> Released[Tensor]:
        model = start.value.clone()
        velocity = torch.zeros_like(model)
        for _ in range(self.local_steps):
            gradient = release.noisy_sum(model) / release.expected_batch + self.weight_decay * model
            velocity = self.momentum * velocity + gradient
            model = model - self.learning_rate * velocity
        return start.map(lambda _: model)
