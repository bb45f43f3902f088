"""What training mode does to stored batch statistics when examples pass one by one: an accident of published code, to be shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from sordino.models.weights import FrozenBatchNorm

MOMENTUM = 0.1
"""By how much one batch moves the stored statistics: torch's default."""


def features_of_singles(body: nn.Module, parts: Sequence[Tensor]) -> Tensor:
    """The body's outputs when its batch normalisations are in training mode and every example is a batch of its own.

    Each example is normalised by its own mean and variance over positions, and moves the stored ones. The stored statistics of
    `FrozenBatchNorm` stay; what the moved ones would do to a channel goes into its scale and shift. The order is that of `parts`.
    """
    layers = [layer for layer in body.modules() if isinstance(layer, FrozenBatchNorm)]
    seen: dict[nn.Module, list[tuple[Tensor, Tensor]]] = {layer: [] for layer in layers}

    def normalise(layer: nn.Module, given: tuple[Any, ...], _: Tensor) -> Tensor:
        assert isinstance(layer, FrozenBatchNorm)
        flat = given[0].flatten(2)
        mean, count = flat.mean(2), flat.shape[2]
        variance = flat.var(2, correction=0)
        seen[layer].append((mean, variance * (count / max(count - 1, 1))))
        alone = (flat - mean[:, :, None]) / (variance + layer.eps).sqrt()[:, :, None]
        out: Tensor = (alone * layer.weight[:, None] + layer.bias[:, None]).view_as(given[0])
        return out

    hooks = [layer.register_forward_hook(normalise) for layer in layers]
    try:
        features = torch.cat([body(part) for part in parts])
    finally:
        for hook in hooks:
            hook.remove()
    for layer in layers:
        means, variances = (torch.cat(values) for values in zip(*seen[layer], strict=True))
        _fold(layer, _moved(layer.running_mean, means), _moved(layer.running_var, variances))
    return features


def _moved(stored: Tensor | None, seen: Tensor) -> Tensor:
    """The stored value after each of the seen ones moved it in turn."""
    assert stored is not None
    left = (1 - MOMENTUM) ** torch.arange(len(seen) - 1, -1, -1, dtype=torch.float64).to(seen)
    return (1 - MOMENTUM) ** len(seen) * stored + MOMENTUM * left @ seen


def _fold(layer: FrozenBatchNorm, mean: Tensor, variance: Tensor) -> None:
    """Give the layer the scale and shift with which its own statistics do what these would."""
    assert layer.running_mean is not None and layer.running_var is not None
    scale = layer.weight / (variance + layer.eps).sqrt()
    layer.bias.add_(scale * (layer.running_mean - mean))
    layer.weight.copy_(scale * (layer.running_var + layer.eps).sqrt())
