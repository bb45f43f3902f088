"""MobileNetV2 for ImageNet, with the keys of torchvision's file."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from sordino.models.inputs import Inputs
from sordino.models.registry import MODELS
from sordino.models.weights import FrozenBatchNorm, SourceNet, colour_images, convolution

FEATURES = 1280
STAGES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
"""Expansion, channels, blocks and first stride."""


@MODELS.register("mobilenet_v2")
@dataclass(frozen=True, kw_only=True)
class MobileNetV2:
    """MobileNetV2 for torchvision's weights: 1280 features, 3,504,872 parameters with 1000 classes.

    The weights expect pixels from 0 to 1 less mean (0.485, 0.456, 0.406) over std (0.229, 0.224, 0.225).
    """

    def build(self, inputs: Inputs, classes: int) -> SourceNet:
        colour_images(inputs, "mobilenet_v2")
        return SourceNet(body=MobileNetBody(), head=nn.Linear(FEATURES, classes), head_in_file="classifier.1")


class MobileNetBody(nn.Module):
    """Inverted residual blocks between two convolutions, and the mean over positions."""

    def __init__(self) -> None:
        super().__init__()
        channels = 32
        self.features = nn.Sequential(_filtered(3, channels, 3, stride=2))
        for expansion, after, count, stride in STAGES:
            for position in range(count):
                self.features.append(InvertedResidual(channels, after, expansion, 1 if position else stride))
                channels = after
        self.features.append(_filtered(channels, FEATURES, 1))

    def forward(self, inputs: Tensor) -> Tensor:
        hidden: Tensor = self.features(inputs)
        return hidden.mean(dim=(2, 3))


class InvertedResidual(nn.Module):
    """Widen, filter each channel by itself, narrow; a shortcut where the shape stays."""

    def __init__(self, before: int, after: int, expansion: int, stride: int) -> None:
        super().__init__()
        wide = before * expansion
        last_norm = FrozenBatchNorm(after)
        self.conv = nn.Sequential(
            *([_filtered(before, wide, 1)] if expansion > 1 else []),
            _filtered(wide, wide, 3, stride=stride, groups=wide),
            convolution(wide, after, 1),
            last_norm,
        )
        self._shortcut = before == after and stride == 1
        if self._shortcut:
            nn.init.zeros_(last_norm.weight)

    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = self.conv(inputs)
        return inputs + outputs if self._shortcut else outputs


def _filtered(before: int, after: int, kernel_size: int, *, stride: int = 1, groups: int = 1) -> nn.Sequential:
    layer = convolution(before, after, kernel_size, stride=stride, groups=groups)
    return nn.Sequential(layer, FrozenBatchNorm(after), nn.ReLU6())
