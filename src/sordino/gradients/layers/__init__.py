"""Per-layer rules, found by a layer's exact class: a subclass may compute something else, so it is not matched."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from torch import Tensor, nn

from sordino.gradients.layers.booking import Booking, Capture, Request
from sordino.gradients.layers.conv import book_conv
from sordino.gradients.layers.embedding import book_embedding
from sordino.gradients.layers.linear import book_linear
from sordino.gradients.layers.norm import book_fixed_norm, book_group_norm, book_instance_norm, book_layer_norm
from sordino.gradients.layers.recurrent import book_lstm, has_lstm_rule
from sordino.kernels import Conv2d, GroupNorm

Rule: TypeAlias = Callable[[Capture, Tensor, Request], dict[str, Booking]]

RULES: dict[type[nn.Module], Rule] = {
    nn.Linear: book_linear,
    nn.Conv1d: book_conv,
    nn.Conv2d: book_conv,
    Conv2d: book_conv,
    nn.GroupNorm: book_group_norm,
    GroupNorm: book_group_norm,
    nn.LayerNorm: book_layer_norm,
    nn.InstanceNorm1d: book_instance_norm,
    nn.InstanceNorm2d: book_instance_norm,
    nn.InstanceNorm3d: book_instance_norm,
    nn.BatchNorm1d: book_fixed_norm,
    nn.BatchNorm2d: book_fixed_norm,
    nn.BatchNorm3d: book_fixed_norm,
    nn.Embedding: book_embedding,
    nn.LSTM: book_lstm,
}


def rule_for(layer: nn.Module) -> Rule | None:
    """The layer's rule, or None where only the fallback is right."""
    if isinstance(layer, nn.Embedding) and (layer.max_norm is not None or layer.scale_grad_by_freq):
        return None
    if isinstance(layer, nn.LSTM) and not has_lstm_rule(layer):
        return None
    return RULES.get(type(layer))


__all__ = ["Booking", "Capture", "Request", "Rule", "rule_for"]
