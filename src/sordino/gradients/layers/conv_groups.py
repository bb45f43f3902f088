"""Gradients of a convolution's weight by torch's own convolutions: every example of a block is a group of its own.

Torch's processor library keeps products of a group in registers, where a batched product asks for patches that are copied out first.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from sordino.gradients.layers.booking import slices

FEWEST_CHANNELS, FEWEST_POSITIONS, LEAST_KERNEL = 16, 256, 3
"""Below these, copying patches is as fast. So it is with strides of two."""
BLOCK = 16
"""Examples taken at a time: their copies stay in the cache."""


def suits(layer: nn.Module, inputs: Tensor, grads: Tensor) -> bool:
    """Whether this way is the faster, from shapes alone, so that every machine takes the same."""
    return (
        isinstance(layer, nn.Conv2d)
        and inputs.device.type == "cpu"
        and inputs.dtype == grads.dtype == torch.float32
        and torch.backends.mkldnn.is_available()
        and layer.groups == 1
        and layer.stride == layer.dilation == (1, 1)
        and layer.padding_mode == "zeros"
        and not isinstance(layer.padding, str)
        and min(layer.kernel_size) >= LEAST_KERNEL
        and min(layer.in_channels, layer.out_channels) >= FEWEST_CHANNELS
        and grads.shape[2] * grads.shape[3] >= FEWEST_POSITIONS
    )


def rows_by_groups(layer: nn.Conv2d, inputs: Tensor, grads: Tensor) -> Tensor:
    """Every example's gradient in the weight's own shape: (examples, outputs, inputs, rows, columns)."""
    kept = grads.new_empty(len(grads), *layer.weight.shape)
    for examples in slices(len(grads), BLOCK):
        kept[examples] = _of_block(layer, inputs[examples], grads[examples])
    return kept


def _of_block(layer: nn.Conv2d, inputs: Tensor, grads: Tensor) -> Tensor:
    count = len(grads)
    weight = grads.new_empty(1).expand(count * layer.out_channels, *layer.weight.shape[1:])  # for its shape alone
    side_by_side = (values.contiguous().flatten(0, 1).unsqueeze(0) for values in (grads, inputs))
    _, found, _ = torch.ops.aten.convolution_backward(
        *side_by_side,
        weight,
        None,
        layer.stride,
        layer.padding,
        layer.dilation,
        False,
        (0, 0),
        count,
        (False, True, False),
    )
    return found.view(count, *layer.weight.shape)  # type: ignore[no-any-return]
