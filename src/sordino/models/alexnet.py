"""AlexNet for images of 32x32 pixels."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from sordino.models.inputs import Inputs
from sordino.models.parts import Dropout, Net
from sordino.models.registry import MODELS, require_at_least


@MODELS.register("alexnet")
@dataclass(frozen=True, kw_only=True)
class AlexNet:
    """Five 3x3 convolutions and two dense layers with dropout, for small images such as 32x32."""

    features: int = 4096
    dropout: float = 0.5

    def __post_init__(self) -> None:
        require_at_least(1, features=self.features)
        Dropout(self.dropout)

    def build(self, inputs: Inputs, classes: int) -> Net:
        channels, *sides = inputs.images("alexnet", least=16)
        height, width = (((side + 1) // 2) // 8 for side in sides)
        body = nn.Sequential(
            *_convolution(channels, 64, stride=2),
            nn.MaxPool2d(2),
            *_convolution(64, 192),
            nn.MaxPool2d(2),
            *_convolution(192, 384),
            *_convolution(384, 256),
            *_convolution(256, 256),
            nn.MaxPool2d(2),
            nn.Flatten(),
            Dropout(self.dropout),
            nn.Linear(256 * height * width, self.features),
            nn.ReLU(),
            Dropout(self.dropout),
            nn.Linear(self.features, self.features),
            nn.ReLU(),
        )
        return Net(body=body, head=nn.Linear(self.features, classes))


def _convolution(inputs: int, outputs: int, stride: int = 1) -> tuple[nn.Module, nn.Module]:
    return nn.Conv2d(inputs, outputs, kernel_size=3, stride=stride, padding=1), nn.ReLU()
