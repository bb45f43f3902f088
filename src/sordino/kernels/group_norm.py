"""Group normalisation that is as fast with channels last as torch's is with channels first."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import group_norm

from sordino.kernels.native import channels_last, library, readable, threads

BLOCK, MOST_CHANNELS = 16, 4096


class GroupNorm(nn.GroupNorm):
    """torch's GroupNorm, by our kernel where it suits the input and by torch's elsewhere."""

    def forward(self, inputs: Tensor) -> Tensor:
        if self.affine and suits(inputs):
            normalised: Tensor = _GroupNorm.apply(inputs, self.weight, self.bias, self.num_groups, self.eps)  # type: ignore[no-untyped-call]
            return normalised
        return super().forward(inputs)


def suits(inputs: Tensor) -> bool:
    """Whether the kernels can take this tensor."""
    return readable(inputs) and inputs.shape[1] % BLOCK == 0 and inputs.shape[1] <= MOST_CHANNELS


def channel_sums(inputs: Tensor, grads: Tensor) -> tuple[Tensor, Tensor]:
    """For every example and channel, the sum over positions of g, and of g x; for inputs that suit."""
    kernels = library()
    assert kernels is not None
    grads = channels_last(grads)
    sums, products = inputs.new_empty(2, *inputs.shape[:2])
    addresses = (tensor.data_ptr() for tensor in (inputs, grads, sums, products))
    kernels.channel_sums(*addresses, *_sizes(inputs), threads())
    return sums, products


class _GroupNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, inputs: Tensor, weight: Tensor, bias: Tensor, groups: int, eps: float) -> Tensor:
        kernels = library()
        assert kernels is not None
        weight, bias = weight.contiguous(), bias.contiguous()
        output = torch.empty_like(inputs)
        ctx.statistics = mean, inverse_std = inputs.new_empty(2, len(inputs), groups).unbind()
        addresses = (tensor.data_ptr() for tensor in (inputs, weight, bias, output, mean, inverse_std))
        kernels.group_norm_forward(*addresses, *_sizes(inputs), groups, eps, threads())
        ctx.save_for_backward(inputs, weight, bias)
        ctx.groups, ctx.eps = groups, eps
        return output

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        inputs, weight, bias = ctx.saved_tensors
        if torch.is_grad_enabled():  # somebody will differentiate this gradient again
            again = group_norm(inputs, ctx.groups, weight, bias, ctx.eps)
            asked = [tensor for tensor, need in zip((inputs, weight, bias), ctx.needs_input_grad, strict=False) if need]
            found = iter(torch.autograd.grad(again, asked, grads[0], create_graph=True))
            return *(next(found) if need else None for need in ctx.needs_input_grad[:3]), None, None
        kernels = library()
        assert kernels is not None
        grad, (mean, inverse_std) = channels_last(grads[0]), ctx.statistics
        passed_on = torch.empty_like(inputs)
        by_example = inputs.new_empty(2, *inputs.shape[:2])
        tensors = (inputs, grad, weight, mean, inverse_std, passed_on, by_example[0], by_example[1])
        addresses = (tensor.data_ptr() for tensor in tensors)
        kernels.group_norm_backward(*addresses, *_sizes(inputs), ctx.groups, threads())
        of_weight, of_bias = by_example.sum(1).unbind() if any(ctx.needs_input_grad[1:3]) else (None, None)
        return passed_on, of_weight, of_bias, None, None


def _sizes(inputs: Tensor) -> tuple[int, int, int]:
    examples, channels, height, width = inputs.shape
    return examples, height * width, channels
