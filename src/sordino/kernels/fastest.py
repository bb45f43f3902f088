"""A model in the form that this machine runs fastest: same parameters, same names, same results to float32 rounding."""

from __future__ import annotations

from itertools import pairwise
from typing import TypeVar

import torch
from torch import nn

from sordino.kernels.choice import LAYERS, left_to_torch
from sordino.kernels.convolution import Conv2d
from sordino.kernels.group_norm import BLOCK, GroupNorm
from sordino.kernels.max_pool import RectifiedMaxPool2d, is_plain
from sordino.kernels.native import library

M = TypeVar("M", bound=nn.Module)

FASTER: dict[type[nn.Module], type[nn.Module]] = {nn.GroupNorm: GroupNorm, nn.Conv2d: Conv2d}


def fastest(net: M) -> M:
    """Change the layout of the model's parameters and the classes of its layers, in place, and return it."""
    modules = list(net.modules())
    if not any(isinstance(module, nn.Conv2d) for module in modules):
        return net
    if any(left_to_torch(module, LAYERS) for module in modules):
        return net
    norms = [module for module in modules if type(module) is nn.GroupNorm]
    if norms and (library() is None or any(norm.num_channels % BLOCK for norm in norms)):
        return net  # torch's own group norm is so slow with channels last that convolutions do not make up for it
    for module in modules:
        module.__class__ = FASTER.get(type(module), type(module))
        if type(module) is nn.Sequential:
            _rectify_after_pooling(module)
    return net.to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


def _rectify_after_pooling(layers: nn.Sequential) -> None:
    for first, second in pairwise(layers):
        if type(first) is nn.ReLU and type(second) is nn.MaxPool2d and is_plain(second):
            first.__class__, second.__class__ = nn.Identity, RectifiedMaxPool2d  # type: ignore[assignment]
