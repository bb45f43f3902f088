"""ResNets and ResNeXts for ImageNet, with the keys of torchvision's files.

The weights expect pixels from 0 to 1 less mean (0.485, 0.456, 0.406) over std (0.229, 0.224, 0.225).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from torch import Tensor, nn
from torch.nn.functional import relu

from sordino.models.inputs import Inputs
from sordino.models.registry import MODELS
from sordino.models.weights import FrozenBatchNorm, SourceNet, colour_images, convolution


@MODELS.register("resnet18")
@dataclass(frozen=True, kw_only=True)
class ResNet18:
    """ResNet-18 for torchvision's weights: 512 features, 11,689,512 parameters with 1000 classes."""

    def build(self, inputs: Inputs, classes: int) -> SourceNet:
        return _build("resnet18", inputs, classes, blocks=(2, 2, 2, 2), block=Basic)


@MODELS.register("resnet50")
@dataclass(frozen=True, kw_only=True)
class ResNet50:
    """ResNet-50 for torchvision's weights: 2048 features, 25,557,032 parameters with 1000 classes."""

    def build(self, inputs: Inputs, classes: int) -> SourceNet:
        return _build("resnet50", inputs, classes, blocks=(3, 4, 6, 3), block=Bottleneck)


@MODELS.register("resnet50_v1")
@dataclass(frozen=True, kw_only=True)
class ResNet50V1:
    """ResNet-50 as first published, with strides in the first 1x1 convolution of a stage: for converted Keras weights.

    Keys, pixels and sizes are those of resnet50; with its weights in resnet50, or the other way round, nothing is recognised.
    """

    def build(self, inputs: Inputs, classes: int) -> SourceNet:
        block = partial(Bottleneck, stride_first=True)
        return _build("resnet50_v1", inputs, classes, blocks=(3, 4, 6, 3), block=block)


@MODELS.register("resnet152")
@dataclass(frozen=True, kw_only=True)
class ResNet152:
    """ResNet-152 for torchvision's weights: 2048 features, 60,192,808 parameters with 1000 classes."""

    def build(self, inputs: Inputs, classes: int) -> SourceNet:
        return _build("resnet152", inputs, classes, blocks=(3, 8, 36, 3), block=Bottleneck)


@MODELS.register("resnext50_32x4d")
@dataclass(frozen=True, kw_only=True)
class ResNeXt50:
    """ResNeXt-50 32x4d for torchvision's weights: 2048 features, 25,028,904 parameters with 1000 classes."""

    def build(self, inputs: Inputs, classes: int) -> SourceNet:
        block = partial(Bottleneck, groups=32, group_channels=4)
        return _build("resnext50_32x4d", inputs, classes, blocks=(3, 4, 6, 3), block=block)


@MODELS.register("resnext101_32x8d")
@dataclass(frozen=True, kw_only=True)
class ResNeXt101:
    """ResNeXt-101 32x8d for torchvision's weights: 2048 features, 88,791,336 parameters with 1000 classes."""

    def build(self, inputs: Inputs, classes: int) -> SourceNet:
        block = partial(Bottleneck, groups=32, group_channels=8)
        return _build("resnext101_32x8d", inputs, classes, blocks=(3, 4, 23, 3), block=block)


def _build(name: str, inputs: Inputs, classes: int, *, blocks: Sequence[int], block: Block) -> SourceNet:
    colour_images(inputs, name)
    body = ResNetBody(blocks, block)
    return SourceNet(body=body, head=nn.Linear(body.features, classes), head_in_file="fc")


class ResNetBody(nn.Module):
    """A stem, four stages that double the channels and halve the sides, and the mean over positions."""

    def __init__(self, blocks: Sequence[int], block: Block) -> None:
        super().__init__()
        self.conv1 = convolution(3, 64, 7, stride=2)
        self.bn1 = FrozenBatchNorm(64)
        self.maxpool = nn.MaxPool2d(kernel_size=3, stride=2, padding=1)
        self.features = 64
        self.layer1 = self._stage(blocks[0], 64, 1, block)
        self.layer2 = self._stage(blocks[1], 128, 2, block)
        self.layer3 = self._stage(blocks[2], 256, 2, block)
        self.layer4 = self._stage(blocks[3], 512, 2, block)
        self.avgpool = nn.AdaptiveAvgPool2d(1)

    def _stage(self, count: int, width: int, stride: int, block: Block) -> nn.Sequential:
        layers = nn.Sequential()
        for position in range(count):
            residual = block(self.features, width, 1 if position else stride)
            self.features = residual.channels
            layers.append(residual)
        return layers

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = self.maxpool(relu(self.bn1(self.conv1(inputs))))
        hidden = self.layer4(self.layer3(self.layer2(self.layer1(hidden))))
        features: Tensor = self.avgpool(hidden).flatten(1)
        return features


class Basic(nn.Module):
    """Two 3x3 convolutions and a shortcut."""

    def __init__(self, before: int, width: int, stride: int) -> None:
        super().__init__()
        self.channels = width
        self.conv1 = convolution(before, width, 3, stride=stride)
        self.bn1 = FrozenBatchNorm(width)
        self.conv2 = convolution(width, width, 3)
        self.bn2 = FrozenBatchNorm(width)
        self.downsample = _shortcut(before, width, stride)
        nn.init.zeros_(self.bn2.weight)

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = relu(self.bn1(self.conv1(inputs)))
        return relu(self.bn2(self.conv2(hidden)) + self.downsample(inputs))


class Bottleneck(nn.Module):
    """A 3x3 convolution, perhaps in groups, between two 1x1 convolutions, and a shortcut; the stride is in the 3x3 or the first."""

    def __init__(
        self,
        before: int,
        width: int,
        stride: int,
        *,
        groups: int = 1,
        group_channels: int = 64,
        stride_first: bool = False,
    ) -> None:
        super().__init__()
        self.channels = 4 * width
        inner = groups * group_channels * width // 64
        self.conv1 = convolution(before, inner, 1, stride=stride if stride_first else 1)
        self.bn1 = FrozenBatchNorm(inner)
        self.conv2 = convolution(inner, inner, 3, stride=1 if stride_first else stride, groups=groups)
        self.bn2 = FrozenBatchNorm(inner)
        self.conv3 = convolution(inner, self.channels, 1)
        self.bn3 = FrozenBatchNorm(self.channels)
        self.downsample = _shortcut(before, self.channels, stride)
        nn.init.zeros_(self.bn3.weight)

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = relu(self.bn1(self.conv1(inputs)))
        hidden = relu(self.bn2(self.conv2(hidden)))
        return relu(self.bn3(self.conv3(hidden)) + self.downsample(inputs))


Block: TypeAlias = Callable[[int, int, int], Basic | Bottleneck]


def _shortcut(before: int, after: int, stride: int) -> nn.Module:
    if before == after and stride == 1:
        return nn.Identity()
    return nn.Sequential(convolution(before, after, 1, stride=stride), FrozenBatchNorm(after))
