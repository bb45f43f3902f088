"""The four networks on which a private step is compared with a plain one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from sordino.models import build


@dataclass(frozen=True, kw_only=True)
class Workload:
    """A network with the batch it is timed on."""

    name: str
    build: Callable[[], nn.Module]
    input_shape: tuple[int, ...]
    batch: int
    classes: int = 10

    def make_batch(self, seed: int = 0) -> tuple[Tensor, Tensor]:
        generator = torch.Generator().manual_seed(seed)
        inputs = torch.randn(self.batch, *self.input_shape, generator=generator)
        targets = torch.randint(self.classes, (self.batch,), generator=generator)
        if inputs.dim() == 4:
            inputs = inputs.contiguous(memory_format=torch.channels_last)
        return inputs, targets


class ResidualBlock(nn.Module):
    """Two 3x3 convolutions with group norm, added to a possibly projected input."""

    def __init__(self, channels_in: int, channels_out: int, stride: int, norm_groups: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels_out, 3, stride, 1, bias=False)
        self.norm1 = nn.GroupNorm(norm_groups, channels_out)
        self.conv2 = nn.Conv2d(channels_out, channels_out, 3, 1, 1, bias=False)
        self.norm2 = nn.GroupNorm(norm_groups, channels_out)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or channels_in != channels_out:
            self.shortcut = nn.Sequential(
                nn.Conv2d(channels_in, channels_out, 1, stride, bias=False), nn.GroupNorm(norm_groups, channels_out)
            )

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = torch.relu(self.norm1(self.conv1(inputs)))
        return torch.relu(self.norm2(self.conv2(hidden)) + self.shortcut(inputs))


def resnet18(classes: int = 10, norm_groups: int = 32) -> nn.Module:
    """ResNet-18 for small images: a 3x3 stem, and group norm in place of batch norm."""
    layers: list[nn.Module] = [nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.GroupNorm(norm_groups, 64), nn.ReLU()]
    channels = 64
    for stage, width in enumerate((64, 128, 256, 512)):
        for block in range(2):
            stride = 2 if stage > 0 and block == 0 else 1
            layers.append(ResidualBlock(channels, width, stride, norm_groups))
            channels = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes))


def _ours(name: str, shape: tuple[int, ...]) -> Callable[[], nn.Module]:
    return lambda: build(name, shape=shape, classes=10)


IMAGE = (3, 32, 32)
WORKLOADS = (
    Workload(name="mlp", build=_ours("mlp", (784,)), input_shape=(784,), batch=256),
    Workload(name="lenet5", build=_ours("lenet5", IMAGE), input_shape=IMAGE, batch=256),
    Workload(name="resnet20-gn", build=_ours("resnet20", IMAGE), input_shape=IMAGE, batch=256),
    Workload(name="resnet18-gn", build=resnet18, input_shape=IMAGE, batch=64),
)
