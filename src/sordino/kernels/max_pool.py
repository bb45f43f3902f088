"""Pooling and rectifying in one pass: the largest rectified value is the rectified largest value."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import max_pool2d, relu

from sordino.kernels.native import addresses, channels_last, library, readable, threads

BLOCK = 16


class RectifiedMaxPool2d(nn.MaxPool2d):
    """relu(max_pool2d(inputs)), for the plain two by two pooling that `is_plain` asks for."""

    def forward(self, inputs: Tensor) -> Tensor:
        if not readable(inputs) or inputs.shape[1] % BLOCK or inputs.shape[2] % 2 or inputs.shape[3] % 2:
            return relu(super().forward(inputs))
        output: Tensor = _RectifiedMaxPool.apply(inputs)  # type: ignore[no-untyped-call]
        return output


def is_plain(layer: nn.MaxPool2d) -> bool:
    sizes = (layer.kernel_size, layer.stride, layer.padding, layer.dilation)
    pairs = [(size, size) if isinstance(size, int) else tuple(size) for size in sizes]
    return pairs == [(2, 2), (2, 2), (0, 0), (1, 1)] and not layer.ceil_mode and not layer.return_indices


class _RectifiedMaxPool(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, inputs: Tensor) -> Tensor:
        kernels = library()
        assert kernels is not None
        examples, channels, height, width = inputs.shape
        output = inputs.new_empty(examples, height // 2, width // 2, channels).permute(0, 3, 1, 2)
        kernels.max_pool_forward(
            *addresses(inputs, output), examples * height, width, channels, threads(inputs.numel())
        )
        ctx.save_for_backward(inputs, output)
        return output

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        inputs, output = ctx.saved_tensors
        if torch.is_grad_enabled():  # somebody will differentiate this gradient again
            again = relu(max_pool2d(inputs, 2))
            found: Tensor = torch.autograd.grad(again, inputs, grads[0], create_graph=True)[0]
            return found
        kernels = library()
        assert kernels is not None
        examples, channels, height, width = inputs.shape
        grad, passed_on = channels_last(grads[0]), torch.empty_like(inputs)
        tensors = addresses(inputs, output, grad, passed_on)
        kernels.max_pool_backward(*tensors, examples * height, width, channels, threads(inputs.numel()))
        return passed_on
