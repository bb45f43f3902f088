"""ResNet-20 with group normalisation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn
from torch.nn.functional import avg_pool2d, pad

from sordino.core import SordinoError
from sordino.kernels import rectified
from sordino.models.inputs import Inputs
from sordino.models.parts import Net
from sordino.models.registry import MODELS, require_at_least


@MODELS.register("resnet20")
@dataclass(frozen=True, kw_only=True)
class ResNet20:
    """Nine residual blocks of `width`, 2 x `width` and 4 x `width` channels, with GroupNorm."""

    width: int = 16
    groups: int = 8
    shortcuts: Literal["padded", "projected"] = "padded"
    """Where a stage begins: skipped pixels with zeros for new channels, or a 1x1 convolution with a norm of its own."""

    def __post_init__(self) -> None:
        require_at_least(1, width=self.width, groups=self.groups)
        if self.width % self.groups:
            raise SordinoError(
                f"[model] width must be a multiple of groups, but got width={self.width} and groups={self.groups}; "
                "change one of them."
            )

    def build(self, inputs: Inputs, classes: int) -> Net:
        channels, _, _ = inputs.images("resnet20", least=8)
        layers: list[nn.Module] = [
            nn.Conv2d(channels, self.width, kernel_size=3, padding=1, bias=False),
            nn.GroupNorm(self.groups, self.width),
            nn.ReLU(),
        ]
        before = self.width
        for stage, after in enumerate((self.width, 2 * self.width, 4 * self.width)):
            for block in range(3):
                stride = 2 if stage and not block else 1
                projected = self.shortcuts == "projected"
                layers.append(Residual(before, after, stride=stride, groups=self.groups, projected=projected))
                before = after
        body = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())
        return Net(body=body, head=nn.Linear(before, classes))


class Residual(nn.Module):
    """Two convolutions and a shortcut; without parameters it is skipped pixels, and zeros for the new channels."""

    def __init__(self, before: int, after: int, *, stride: int, groups: int, projected: bool) -> None:
        super().__init__()
        self.first = nn.Conv2d(before, after, kernel_size=3, stride=stride, padding=1, bias=False)
        self.first_norm = nn.GroupNorm(groups, after)
        self.second = nn.Conv2d(after, after, kernel_size=3, padding=1, bias=False)
        self.second_norm = nn.GroupNorm(groups, after)
        self._stride = stride
        self._new_channels = after - before
        self.shortcut: nn.Sequential | None = None
        if projected and (stride > 1 or before != after):
            narrow = nn.Conv2d(before, after, kernel_size=1, stride=stride, bias=False)
            self.shortcut = nn.Sequential(narrow, nn.GroupNorm(groups, after))

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = rectified(self.first_norm, self.first(inputs))
        return rectified(self.second_norm, self.second(hidden), plus=self._shortcut(inputs))

    def _shortcut(self, inputs: Tensor) -> Tensor:
        if self.shortcut is not None:
            projected: Tensor = self.shortcut(inputs)
            return projected
        if self._stride == 1 and not self._new_channels:
            return inputs
        skipped = avg_pool2d(inputs, 1, self._stride)  # one pixel's mean; slices would lose the layout on the way back
        return pad(skipped, (0, 0, 0, 0, 0, self._new_channels))
