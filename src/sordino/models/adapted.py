"""Layers with an adapter of low rank beside them (LoRA), and trees of modules with some layers replaced."""

from __future__ import annotations

import copy
import math
from collections import Counter
from collections.abc import Mapping
from typing import Any, TypeGuard, TypeVar

import torch
from torch import Tensor, nn

M = TypeVar("M", bound=nn.Module)


def adaptable_layers(net: nn.Module) -> dict[str, nn.Linear | nn.Conv2d]:
    """Dense layers and convolutions over all channels, by name; those that share their weight with another place are left out."""
    found = {name: layer for name, layer in net.named_modules(remove_duplicate=False) if _is_plain(layer)}
    uses = Counter(id(layer.weight) for layer in found.values())
    return {name: layer for name, layer in found.items() if uses[id(layer.weight)] == 1}


def _is_plain(layer: nn.Module) -> TypeGuard[nn.Linear | nn.Conv2d]:
    """Subclasses may compute something else."""
    return type(layer) is nn.Linear or (type(layer) is nn.Conv2d and layer.groups == 1)


class Adapted(nn.Module):
    """A layer and what an adapter of low rank adds: base(x) + scale · up(down(x)), where `up` begins at zero.

    Both factors are plain layers, so that the per-example gradients of each are found by the rule of its own.

    Args:
        base: a dense layer or a convolution, whose weights are shared and not changed.
        rank: how many numbers pass from `down` to `up` at each place; no more than the layer itself has room for.
        scale: a fixed factor of the adapter's output.
    """

    def __init__(self, base: nn.Linear | nn.Conv2d, *, rank: int, scale: float) -> None:
        super().__init__()
        self.base = base
        self.scale = scale
        rank = min(rank, len(base.weight), base.weight[0].numel())
        factors = _dense_factors(base, rank) if isinstance(base, nn.Linear) else _factors(base, rank)
        self.down: nn.Linear | nn.Conv2d = factors[0]
        self.up: nn.Linear | nn.Conv2d = factors[1]
        nn.init.kaiming_uniform_(self.down.weight, a=math.sqrt(5))
        nn.init.zeros_(self.up.weight)

    def forward(self, inputs: Tensor) -> Tensor:
        adapted: Tensor = self.base(inputs) + self.scale * self.up(self.down(inputs))
        return adapted

    @property
    def stride(self) -> Any:
        """Of the convolution beside which the adapter stands; models that pad by hand read it from their layer."""
        return self.base.stride

    @property
    def kernel_size(self) -> Any:
        """Likewise."""
        return self.base.kernel_size

    def merged(self) -> nn.Linear | nn.Conv2d:
        """One plain layer that computes the same."""
        plain = copy.deepcopy(self.base)
        product = self.up.weight.flatten(1) @ self.down.weight.flatten(1)
        with torch.no_grad():
            plain.weight += self.scale * product.view_as(plain.weight)
        return plain


def adapted_layers(net: nn.Module) -> dict[str, Adapted]:
    """The layers with adapters, by name."""
    return {name: layer for name, layer in net.named_modules() if isinstance(layer, Adapted)}


def with_layers(net: M, layers: Mapping[str, nn.Module]) -> M:
    """The same tree with other layers in these places. The tree it is made of stays as it was, and the two share their weights."""
    whole = _copied(net)
    copies: dict[str, nn.Module] = {"": whole}
    for name, layer in layers.items():
        owner, _, last = name.rpartition(".")
        _copy_at(owner, copies)._modules[last] = layer
    return whole


def _copy_at(name: str, copies: dict[str, nn.Module]) -> nn.Module:
    """The copy of the module of this name, made with those around it where it is not there yet."""
    if name not in copies:
        outer, _, last = name.rpartition(".")
        owner = _copy_at(outer, copies)
        owner._modules[last] = copies[name] = _copied(owner.get_submodule(last))
    return copies[name]


def _copied(module: M) -> M:
    """A module with the same parameters and children, whose children can be replaced."""
    twin = module.__class__.__new__(module.__class__)
    twin.__dict__ = {**module.__dict__, "_modules": dict(module._modules)}
    return twin


def _dense_factors(base: nn.Linear, rank: int) -> tuple[nn.Linear, nn.Linear]:
    return nn.Linear(base.in_features, rank, bias=False), nn.Linear(rank, base.out_features, bias=False)


def _factors(base: nn.Conv2d, rank: int) -> tuple[nn.Conv2d, nn.Conv2d]:
    alike = ("kernel_size", "stride", "padding", "dilation", "padding_mode")
    settings: dict[str, Any] = {name: getattr(base, name) for name in alike}
    return nn.Conv2d(base.in_channels, rank, bias=False, **settings), nn.Conv2d(rank, base.out_channels, 1, bias=False)
