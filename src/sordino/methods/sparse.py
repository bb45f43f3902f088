"""Sparse layers: which weights are kept, which gradients pass, and the pull of an update's norm to the clip bound."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from sordino.core import SordinoError
from sordino.models import FlatSpace

Masks = dict[int, Tensor]
"""For each sparse parameter, by its place in the space, which of its weights are kept."""


def sparse_places(space: FlatSpace, layers: int) -> list[int]:
    """The places of the weights of the last `layers` layers; biases and norms stay dense."""
    weights = [place for place, shape in enumerate(space.shapes) if len(shape) > 1]
    if layers > len(weights):
        raise SordinoError(
            f"[method] layers = {layers} asks for more sparse layers than the shared part has, which is {len(weights)}; "
            "lower it or choose a deeper model."
        )
    return weights[-layers:]


def kept_of(size: int, share: float) -> int:
    return max(1, math.ceil(share * size))


def largest(weight: Tensor, share: float) -> Tensor:
    """Where the `share` of weights of largest magnitude lies, as a mask of the weight's shape."""
    chosen = weight.abs().flatten().topk(kept_of(weight.numel(), share)).indices
    return (
        torch.zeros(weight.numel(), dtype=torch.bool, device=weight.device).index_fill_(0, chosen, True).view_as(weight)
    )


def regrown(mask: Tensor, weight: Tensor, share: float, generator: torch.Generator) -> Tensor:
    """The mask in which the smallest `share` of kept weights makes way for as many others, drawn by a public generator."""
    kept, out = mask.flatten().nonzero()[:, 0], mask.flatten().logical_not().nonzero()[:, 0]
    count = min(int(share * len(kept)), len(out))
    leaving = kept[weight.flatten()[kept].abs().topk(count, largest=False).indices]
    coming = out[torch.randperm(len(out), generator=generator)[:count].to(out.device)]
    return mask.flatten().clone().index_fill_(0, leaving, False).index_fill_(0, coming, True).view_as(mask)


def flat_mask(space: FlatSpace, masks: Masks, device: torch.device) -> Tensor:
    """The masks in the space's flat order; whatever is not sparse is kept."""
    flat = torch.ones(space.size, dtype=torch.bool, device=device)
    views = list(space.views(flat).values())
    for place, mask in masks.items():
        views[place].copy_(mask)
    return flat


def masks_in(space: FlatSpace, flat: Tensor, places: Sequence[int]) -> Masks:
    views = list(space.views(flat).values())
    return {place: views[place] for place in places}


def norm_pull(moved: list[Tensor], *, bound: float, weight: float) -> list[Tensor]:
    """The gradient of (λ/2)·|‖moved‖ − C|; where nothing moved it is 0/0, and taken as 0."""
    norm = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(part) for part in moved]))
    if norm == 0:
        return [torch.zeros_like(part) for part in moved]
    factor = weight / 2 * torch.sign(norm - bound) / norm
    return [factor * part for part in moved]
