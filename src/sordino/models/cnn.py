"""A small convolutional network."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from sordino.models.inputs import Inputs
from sordino.models.parts import Net
from sordino.models.registry import MODELS, require_at_least


@MODELS.register("cnn")
@dataclass(frozen=True, kw_only=True)
class Cnn:
    """Two 3x3 convolutions with pooling and a dense layer; 545,098 parameters on 3x32x32 with 10 classes."""

    features: int = 128

    def __post_init__(self) -> None:
        require_at_least(1, features=self.features)

    def build(self, inputs: Inputs, classes: int) -> Net:
        channels, height, width = inputs.images("cnn", least=4)
        body = nn.Sequential(
            nn.Conv2d(channels, 32, kernel_size=3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(32, 64, kernel_size=3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(64 * (height // 4) * (width // 4), self.features),
            nn.ReLU(),
        )
        return Net(body=body, head=nn.Linear(self.features, classes))
