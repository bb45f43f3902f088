"""LeNet-5, in the wide form used for colour images."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from sordino.models.inputs import Inputs
from sordino.models.parts import Net
from sordino.models.registry import MODELS, require_at_least


@MODELS.register("lenet5")
@dataclass(frozen=True, kw_only=True)
class LeNet5:
    """Two 5x5 convolutions with pooling and two dense layers; 1600-512-512-10 on 3x32x32."""

    features: int = 512

    def __post_init__(self) -> None:
        require_at_least(1, features=self.features)

    def build(self, inputs: Inputs, classes: int) -> Net:
        channels, *sides = inputs.images("lenet5", least=16)
        height, width = (((side - 4) // 2 - 4) // 2 for side in sides)
        body = nn.Sequential(
            nn.Conv2d(channels, 32, kernel_size=5),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(32, 64, kernel_size=5),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(64 * height * width, self.features),
            nn.ReLU(),
            nn.Linear(self.features, self.features),
            nn.ReLU(),
        )
        return Net(body=body, head=nn.Linear(self.features, classes))
