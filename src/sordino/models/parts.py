"""A model with named parts, and the one layer that draws random numbers."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from sordino.core import SordinoError


class Net(nn.Module):
    """A body that makes features and a head that makes logits of them.

    Args:
        body: from a batch of examples to features; no layer in it may mix examples or keep anything of them.
        head: from features to logits, one for each class.

    Example:
        `Net(body=nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU()), head=nn.Linear(32, 10))`
    """

    runs_children_in_order: ClassVar[bool] = True

    def __init__(self, *, body: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.body = body
        self.head = head

    def forward(self, inputs: Tensor) -> Tensor:
        logits: Tensor = self.head(self.body(inputs))
        return logits

    def parts(self) -> dict[str, list[str]]:
        """The names of the parameters of each part; every parameter is in exactly one."""
        names = [name for name, _ in self.named_parameters()]
        return {part: [name for name in names if name.startswith(f"{part}.")] for part in ("body", "head")}


class Dropout(nn.Module):
    """Dropout whose mask can be drawn from a given generator, so that stacked and single clients see the same one."""

    draws_factors: ClassVar[bool] = True

    def __init__(self, probability: float) -> None:
        super().__init__()
        if not 0 <= probability < 1:
            raise SordinoError(f"[model] dropout must lie in [0, 1), but got {probability}; choose 0 for none.")
        self.probability = probability
        self.generator: torch.Generator | None = None

    def mask(self, shape: torch.Size, generator: torch.Generator | None = None) -> Tensor:
        """Zeros with the given probability, and elsewhere the number that keeps the mean."""
        return torch.rand(shape, generator=generator).ge_(self.probability).div_(1 - self.probability)

    def factors(self, inputs: Tensor) -> Tensor:
        """What these inputs are multiplied by: a mask in training, else ones."""
        if not self.training or not self.probability:
            return torch.ones_like(inputs)
        return self.mask(inputs.shape, self.generator).to(inputs)

    def forward(self, inputs: Tensor) -> Tensor:
        if not self.training or not self.probability:
            return inputs
        return inputs * self.factors(inputs)

    def extra_repr(self) -> str:
        return f"probability={self.probability}"


def draw_dropout_from(net: nn.Module, generator: torch.Generator) -> None:
    """Let every dropout layer of the model draw its masks from this generator."""
    for module in net.modules():
        if isinstance(module, Dropout):
            module.generator = generator
