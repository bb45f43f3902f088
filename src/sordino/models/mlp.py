"""Dense layers."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from sordino.models.inputs import Inputs
from sordino.models.parts import Dropout, Net
from sordino.models.registry import MODELS, require_at_least


@MODELS.register("mlp")
@dataclass(frozen=True, kw_only=True)
class Mlp:
    """Dense layers of the given sizes with ReLU between them, on flattened inputs."""

    hidden: tuple[int, ...] = (64,)
    bias: bool = True
    dropout: float = 0.0
    normalise: bool = False
    """Whether each layer's outputs are normalised, example by example, before the ReLU."""

    def __post_init__(self) -> None:
        require_at_least(1, **{f"hidden[{place}]": size for place, size in enumerate(self.hidden)})
        Dropout(self.dropout)

    def build(self, inputs: Inputs, classes: int) -> Net:
        width = inputs.numbers("mlp")
        layers: list[nn.Module] = [nn.Flatten()]
        for size in self.hidden:
            norm = [nn.GroupNorm(1, size)] if self.normalise else []
            layers += [nn.Linear(width, size, bias=self.bias), *norm, nn.ReLU()]
            layers += [Dropout(self.dropout)] if self.dropout else []
            width = size
        return Net(body=nn.Sequential(*layers), head=nn.Linear(width, classes, bias=self.bias))
