"""Convolutions whose weight gradient is a fifth to a third faster than torch's, and comes example by example if asked.

Those by 3 x 3 weights are also faster forward and towards the input.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from sordino.kernels import conv3x3
from sordino.kernels.choice import FORWARD, ROWS, SUMS, left_to_torch
from sordino.kernels.native import addresses, channels_last, library, reachable, readable, threads

BLOCK, FEWEST_POSITIONS, MOST_WEIGHTS = 16, 64, 100_000
"""Beyond these a tile's totals no longer stay in the cache, and torch is as fast."""


class Conv2d(nn.Conv2d):
    """torch's Conv2d, with our kernels where they suit."""

    def forward(self, inputs: Tensor) -> Tensor:
        if self._is_ours(inputs):
            output: Tensor = _Convolution.apply(channels_last(inputs), self.weight, self.bias, geometry_of(self))  # type: ignore[no-untyped-call]
            return output
        return super().forward(inputs)

    def _is_ours(self, inputs: Tensor) -> bool:
        if inputs.dim() != 4 or not _is_plain(self) or not reachable(inputs) or not reachable(self.weight):
            return False
        learns = self.weight.requires_grad and torch.is_grad_enabled() and self.weight.numel() <= MOST_WEIGHTS
        return (learns and not left_to_torch(self, SUMS)) or by_tiles(self, inputs)


def by_tiles(layer: nn.Conv2d, inputs: Tensor) -> bool:
    """Whether these images are convolved by the kernel, both ways."""
    return not left_to_torch(layer, FORWARD) and conv3x3.suits(
        layer.weight, inputs, stride=layer.stride[0], padding=int(layer.padding[0])
    )


def suits(layer: nn.Module, inputs: Tensor, grads: Tensor) -> bool:
    """Whether the kernel can give this call's gradients example by example, and is the faster way."""
    return not left_to_torch(layer, ROWS) and takes(layer, inputs, grads)


def takes(layer: nn.Module, inputs: Tensor, grads: Tensor) -> bool:
    """Whether the kernel knows this layer's weight gradient."""
    return (
        isinstance(layer, nn.Conv2d)
        and _is_plain(layer)
        and layer.weight.numel() <= MOST_WEIGHTS
        and readable(inputs)
        and grads.dtype == inputs.dtype
        and grads.shape[2] * grads.shape[3] >= FEWEST_POSITIONS
    )


def _is_plain(layer: nn.Conv2d) -> bool:
    return (
        layer.groups == 1
        and layer.dilation == (1, 1)
        and layer.padding_mode == "zeros"
        and not isinstance(layer.padding, str)
        and layer.padding[0] == layer.padding[1]
        and layer.stride[0] == layer.stride[1]
        and layer.out_channels % BLOCK == 0
    )


@dataclass(frozen=True, kw_only=True)
class Geometry:
    """The part of a convolution that its tensors do not tell."""

    kernel: tuple[int, int]
    stride: int
    padding: int
    tiles: bool = True
    sums: bool = True
    """What torch was not faster at."""


def geometry_of(layer: nn.Conv2d) -> Geometry:
    rows, columns = layer.kernel_size
    return Geometry(
        kernel=(rows, columns),
        stride=layer.stride[0],
        padding=int(layer.padding[0]),
        tiles=not left_to_torch(layer, FORWARD),
        sums=not left_to_torch(layer, SUMS),
    )


def weight_rows(inputs: Tensor, grads: Tensor, geometry: Geometry) -> Tensor:
    """The gradient of the weight for each example: examples x rows x columns x channels x outputs."""
    found = inputs.new_empty(len(inputs), *geometry.kernel, inputs.shape[1], grads.shape[1])
    _fill("conv_weight_rows", found, inputs, grads, geometry)
    return found


def weight_sum(inputs: Tensor, grads: Tensor, geometry: Geometry) -> Tensor:
    """The gradient of the weight, in the weight's shape, with channels last."""
    found = inputs.new_empty(grads.shape[1], *geometry.kernel, inputs.shape[1])
    _fill("conv_weight_sum", found, inputs, grads, geometry)
    return found.permute(0, 3, 1, 2)


def _fill(kernel: str, found: Tensor, inputs: Tensor, grads: Tensor, geometry: Geometry) -> None:
    grads = channels_last(grads)
    (examples, channels, *sides), (_, outputs, *out_sides) = inputs.shape, grads.shape
    sizes = (examples, *sides, channels, *out_sides, outputs, *geometry.kernel, geometry.stride, geometry.padding)
    if getattr(library(), kernel)(*addresses(inputs, grads, found), *sizes, threads(inputs.numel())):
        raise MemoryError("No memory for one padded image per thread.")


def arrange(totals: Tensor) -> Tensor:
    """From rows x columns x channels x outputs to a weight's shape, without copying."""
    return totals.permute(3, 2, 0, 1)


class _Convolution(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, inputs: Tensor, weight: Tensor, bias: Tensor | None, geometry: Geometry) -> Tensor:
        ctx.save_for_backward(inputs, weight)
        ctx.geometry = geometry
        ctx.by_tiles = geometry.tiles and conv3x3.suits(
            weight, inputs, stride=geometry.stride, padding=geometry.padding
        )
        if ctx.by_tiles:
            return conv3x3.convolved(inputs, weight, bias)
        return torch.conv2d(inputs, weight, bias, geometry.stride, geometry.padding)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        inputs, weight = ctx.saved_tensors
        grad, geometry = grads[0], ctx.geometry
        again = torch.is_grad_enabled()  # somebody will differentiate this gradient again
        few, wide = weight.numel() <= MOST_WEIGHTS, grad.shape[2] * grad.shape[3] >= FEWEST_POSITIONS
        sums = geometry.sums and not again and few and wide
        by_tiles = not again and ctx.by_tiles
        wanted_of_inputs, wanted_of_weight, wanted_of_bias = ctx.needs_input_grad[:3]
        asked = [wanted_of_inputs and not by_tiles, wanted_of_weight and not sums, wanted_of_bias and not sums]
        of_inputs, of_weight, of_bias = gradients_by_torch(grad, inputs, weight, geometry, asked)
        if wanted_of_inputs and by_tiles:
            of_inputs = conv3x3.passed_back(grad, weight)
        if wanted_of_bias and sums:
            of_bias = grad.sum((0, 2, 3))
        if wanted_of_weight and sums:
            of_weight = weight_sum(inputs, grad, geometry)
        return of_inputs, of_weight, of_bias, None


def gradients_by_torch(
    grad: Tensor, inputs: Tensor, weight: Tensor, geometry: Geometry, asked: list[bool]
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """Those of inputs, weight and bias that are asked for."""
    if not any(asked):
        return None, None, None
    sizes, stride, padding = [weight.shape[0]], [geometry.stride] * 2, [geometry.padding] * 2
    found: tuple[Tensor | None, Tensor | None, Tensor | None] = torch.ops.aten.convolution_backward(
        grad, inputs, weight, sizes, stride, padding, [1, 1], False, [0, 0], 1, asked
    )
    return found
