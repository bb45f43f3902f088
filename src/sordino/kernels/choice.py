"""What of a model's work is left to torch, because torch was the faster when both were tried; the layers carry it themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import nn

FORWARD, SUMS, ROWS = "forward", "sums", "rows"
"""A convolution forward and towards its input; its weight's gradient, summed; the same, example by example."""
LAYERS, CLIENTS = "layers", "clients"
"""The layout and the layers of a whole model; whole clients of dense layers."""

Left = Mapping[str, Sequence[str]]
"""The kinds of work that are left to torch, by the layer's name, and those of the whole model under the empty name."""

_LEFT = "_left_to_torch"


def leave_to_torch(net: nn.Module, left: Left) -> None:
    """Have the layers remember it; copies of them remember it too."""
    whole = frozenset(left.get("", ()))
    for name, layer in net.named_modules():
        if works := whole | frozenset(left.get(name, ())):
            setattr(layer, _LEFT, works)


def left_to_torch(layer: nn.Module, work: str) -> bool:
    return work in all_left_to_torch(layer)


def all_left_to_torch(layer: nn.Module) -> frozenset[str]:
    left: frozenset[str] = vars(layer).get(_LEFT, frozenset())
    return left
