"""One step of SGD, in place, on many tensors at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class Sgd:
    """Momentum and weight decay as torch.optim.SGD has them, without its start-up cost."""

    momentum: float = 0.0
    weight_decay: float = 0.0

    def velocities(self, parameters: Sequence[Tensor]) -> list[Tensor]:
        """The memory that momentum needs; none without momentum."""
        return [torch.zeros_like(parameter) for parameter in parameters] if self.momentum else []

    def step(
        self, parameters: list[Tensor], gradients: list[Tensor], velocities: list[Tensor], learning_rate: float
    ) -> None:
        with torch.no_grad():
            if self.weight_decay:
                torch._foreach_add_(gradients, parameters, alpha=self.weight_decay)
            if velocities:
                torch._foreach_mul_(velocities, self.momentum)
                torch._foreach_add_(velocities, gradients)
                gradients = velocities
            torch._foreach_add_(parameters, gradients, alpha=-learning_rate)
