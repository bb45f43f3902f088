"""Group normalisation that is as fast with channels last as torch's is with channels first."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import group_norm, relu

from sordino.kernels.native import addresses, channels_last, library, readable, threads

BLOCK, MOST_CHANNELS = 16, 4096


class GroupNorm(nn.GroupNorm):
    """torch's GroupNorm, by our kernel where it suits the input and by torch's elsewhere."""

    def forward(self, inputs: Tensor) -> Tensor:
        return _by_kernel(self, inputs) if self.affine and suits(inputs) else super().forward(inputs)


def rectified(norm: nn.GroupNorm, inputs: Tensor, plus: Tensor | None = None) -> Tensor:
    """relu(norm(inputs) + plus), in one pass over memory where that can be, which is where nobody watches the layer."""
    in_one_pass = (
        isinstance(norm, GroupNorm)
        and norm.affine
        and suits(inputs)
        and (plus is None or (readable(plus) and plus.shape == inputs.shape))
        and not norm._forward_hooks
        and not norm._forward_pre_hooks
    )
    if in_one_pass:
        return _by_kernel(norm, inputs, rectify=True, plus=plus)
    normalised = norm(inputs)
    return relu(normalised if plus is None else normalised + plus)


def _by_kernel(norm: nn.GroupNorm, inputs: Tensor, *, rectify: bool = False, plus: Tensor | None = None) -> Tensor:
    output: Tensor = _GroupNorm.apply(inputs, norm.weight, norm.bias, plus, norm.num_groups, norm.eps, rectify)  # type: ignore[no-untyped-call]
    return output


def suits(inputs: Tensor) -> bool:
    """Whether the kernels can take this tensor."""
    return readable(inputs) and inputs.shape[1] % BLOCK == 0 and inputs.shape[1] <= MOST_CHANNELS


def channel_sums(inputs: Tensor, grads: Tensor) -> tuple[Tensor, Tensor]:
    """For every example and channel, the sum over positions of g, and of g x; for inputs that suit."""
    kernels = library()
    assert kernels is not None
    grads = channels_last(grads)
    sums, products = inputs.new_empty(2, *inputs.shape[:2])
    kernels.channel_sums(*addresses(inputs, grads, sums, products), *_sizes(inputs), threads(inputs.numel()))
    return sums, products


class _GroupNorm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        inputs: Tensor,
        weight: Tensor,
        bias: Tensor,
        plus: Tensor | None,
        groups: int,
        eps: float,
        rectify: bool,
    ) -> Tensor:
        kernels = library()
        assert kernels is not None
        weight, bias = weight.contiguous(), bias.contiguous()
        output = torch.empty_like(inputs)
        ctx.statistics = mean, inverse_std = inputs.new_empty(2, len(inputs), groups).unbind()
        tensors = addresses(inputs, plus, weight, bias, output, mean, inverse_std)
        kernels.group_norm_forward(*tensors, *_sizes(inputs), groups, eps, rectify, threads(inputs.numel()))
        ctx.save_for_backward(inputs, weight, bias, plus, output if rectify else None)
        ctx.groups, ctx.eps = groups, eps
        return output

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        inputs, weight, bias, plus, output = ctx.saved_tensors
        if torch.is_grad_enabled():  # somebody will differentiate this gradient again
            again = group_norm(inputs, ctx.groups, weight, bias, ctx.eps)
            again = again if plus is None else again + plus
            again = again if output is None else relu(again)
            parts = zip((inputs, weight, bias, plus), ctx.needs_input_grad, strict=False)
            asked = [tensor for tensor, need in parts if need]
            found = iter(torch.autograd.grad(again, asked, grads[0], create_graph=True))
            return *(next(found) if need else None for need in ctx.needs_input_grad[:4]), None, None, None
        kernels = library()
        assert kernels is not None
        grad, (mean, inverse_std) = channels_last(grads[0]), ctx.statistics
        of_inputs, of_plus = torch.empty_like(inputs), None if plus is None else torch.empty_like(inputs)
        by_example = inputs.new_empty(2, *inputs.shape[:2])
        tensors = addresses(
            inputs, grad, output, weight, mean, inverse_std, of_inputs, of_plus, by_example[0], by_example[1]
        )
        kernels.group_norm_backward(*tensors, *_sizes(inputs), ctx.groups, threads(inputs.numel()))
        of_weight, of_bias = by_example.sum(1).unbind() if any(ctx.needs_input_grad[1:3]) else (None, None)
        return of_inputs, of_weight, of_bias, of_plus, None, None, None


def _sizes(inputs: Tensor) -> tuple[int, int, int]:
    examples, channels, height, width = inputs.shape
    return examples, height * width, channels
