"""The clipped sum of per-example gradients of dense layers with ReLU, and maybe dropout, between them, in one call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from sordino.kernels.native import addresses, library, reachable, threads


@dataclass(frozen=True, kw_only=True)
class PlacedLayer:
    """A dense layer, and where the sums of its weight and of its bias begin in a flat gradient."""

    layer: nn.Linear
    weight: int
    bias: int | None
    dropout: nn.Module | None = None
    """What multiplies its inputs by `factors(inputs)` after the ReLU; the first layer has none."""


def suits(layers: Sequence[PlacedLayer], inputs: Tensor, labels: Tensor) -> bool:
    """Whether the kernel can read these: rows of single precision, each in one piece, with classes as labels."""
    parameters = [one for placed in layers for one in (placed.layer.weight, placed.layer.bias) if one is not None]
    return (
        inputs.dim() == 2
        and len(inputs) > 0
        and labels.shape == inputs.shape[:1]
        and labels.dtype == torch.int64
        and labels.is_contiguous()
        and all(reachable(one) and one.is_contiguous() for one in (inputs, *parameters))
    )


def clipped_sum(
    layers: Sequence[PlacedLayer], inputs: Tensor, labels: Tensor, *, clip: float, largest: float, total: Tensor
) -> Tensor | None:
    """Put the sum of the examples' gradients of cross-entropy, each cut to `clip`, into `total`, which is zero before.

    Returns every example's norm in double precision, infinite for one that adds nothing because its norm is beyond `largest` or
    no number; None where torch has to do it, or to complain, and `total` is zero again.
    """
    kernels = library()
    assert kernels is not None
    norms = torch.empty(len(inputs), dtype=torch.float64)
    factors = [_drawn(placed, inputs) for placed in layers]
    shapes = torch.tensor([_row(*one) for one in zip(layers, factors, strict=True)], dtype=torch.int64)
    tables, results = addresses(shapes), addresses(total, norms)
    rows = addresses(inputs, labels)
    wrong = kernels.dense_private(
        *tables, len(layers), *rows, len(inputs), clip, largest, *results, threads(inputs.numel())
    )
    if wrong:
        total.zero_()  # other rows were added before the wrong one was met
        return None
    return norms


def _drawn(placed: PlacedLayer, inputs: Tensor) -> Tensor | None:
    """What the inputs of a layer are multiplied by, for every example of the batch."""
    if placed.dropout is None:
        return None
    like = inputs.new_zeros(len(inputs), placed.layer.in_features)
    drawn: Tensor = placed.dropout.factors(like)  # type: ignore[operator]
    return drawn.to(like).expand_as(like).contiguous()


def _row(placed: PlacedLayer, factors: Tensor | None) -> list[int]:
    layer = placed.layer
    weight, bias, drawn = addresses(layer.weight, layer.bias, factors)
    assert weight is not None
    return [layer.in_features, layer.out_features, weight, bias or 0, placed.weight, placed.bias or 0, drawn or 0]
