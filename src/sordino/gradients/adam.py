"""One step of Adam, in place, on many tensors at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class Adam:
    """Adam as torch.optim.AdamW has it, without its start-up cost."""

    first_decay: float = 0.9
    second_decay: float = 0.999
    weight_decay: float = 0.0
    floor: float = 1e-8

    def moments(self, parameters: Sequence[Tensor]) -> list[Tensor]:
        """The memory of all steps so far: the first moment of every parameter, then the second."""
        return [torch.zeros_like(parameter) for parameter in (*parameters, *parameters)]

    def step(
        self,
        parameters: list[Tensor],
        gradients: list[Tensor],
        moments: list[Tensor],
        *,
        number: int,
        learning_rate: float,
    ) -> None:
        """Take step `number`, counted from one."""
        first, second = moments[: len(parameters)], moments[len(parameters) :]
        with torch.no_grad():
            torch._foreach_mul_(parameters, 1 - learning_rate * self.weight_decay)
            torch._foreach_lerp_(first, gradients, 1 - self.first_decay)
            torch._foreach_mul_(second, self.second_decay)
            torch._foreach_addcmul_(second, gradients, gradients, value=1 - self.second_decay)
            scale = torch._foreach_div(second, 1 - self.second_decay**number)
            torch._foreach_sqrt_(scale)
            torch._foreach_add_(scale, self.floor)
            torch._foreach_addcdiv_(parameters, first, scale, value=-learning_rate / (1 - self.first_decay**number))
