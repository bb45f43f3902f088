"""ResNet-20 with group normalisation."""

from __future__ import annotations

from dataclasses import dataclass

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
                layers.append(Residual(before, after, stride=stride, groups=self.groups))
                before = after
        body = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())
        return Net(body=body, head=nn.Linear(before, classes))


class Residual(nn.Module):
    """Two convolutions and a shortcut without parameters: skipped pixels, and zeros for the new channels."""

    def __init__(self, before: int, after: int, *, stride: int, groups: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(before, after, kernel_size=3, stride=stride, padding=1, bias=False)
        self.first_norm = nn.GroupNorm(groups, after)
        self.second = nn.Conv2d(after, after, kernel_size=3, padding=1, bias=False)
        self.second_norm = nn.GroupNorm(groups, after)
        self._stride = stride
        self._new_channels = after - before

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = rectified(self.first_norm, self.first(inputs))
        return rectified(self.second_norm, self.second(hidden), plus=self._shortcut(inputs))

    def _shortcut(self, inputs: Tensor) -> Tensor:
        if self._stride == 1 and not self._new_channels:
            return inputs
        skipped = avg_pool2d(inputs, 1, self._stride)  # one pixel's mean; slices would lose the layout on the way back
        return pad(skipped, (0, 0, 0, 0, 0, self._new_channels))
