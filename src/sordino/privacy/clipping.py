"""Clipping: what turns a private contribution into a bounded one."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from sordino.core import Bounded, Norm, Private, SordinoError, seal, unwrap

_ROUNDING = 1 - 2.0**-20


@dataclass(frozen=True, kw_only=True)
class Clip:
    """The largest norm one unit's contribution may have; infinite where no privacy is claimed."""

    bound: float
    norm: Norm

    def __post_init__(self) -> None:
        if math.isnan(self.bound) or self.bound <= 0:
            raise SordinoError(f"The clip norm must be a positive number, but {self.bound} came; set one such as 1.0.")


def clip_rows(rows: Tensor, clip: Clip) -> Tensor:
    """Scale every row down to the bound; a row with a NaN or an infinity becomes zero.

    Formal guarantee: each returned row has norm at most `clip.bound`, whatever came in. The scale leaves room for the
    rounding of float32, so the bound holds for the stored numbers too.
    """
    order = 2 if clip.norm == "l2" else 1
    norms = torch.linalg.vector_norm(rows, ord=order, dim=-1, keepdim=True, dtype=torch.float64)
    finite = torch.isfinite(norms)
    factors = torch.where(norms > clip.bound * _ROUNDING, clip.bound * _ROUNDING / norms, torch.ones_like(norms))
    scaled = rows * factors.to(rows.dtype)
    return scaled if bool(finite.all()) else torch.where(finite, scaled, torch.zeros_like(scaled))


def bound_each(updates: list[Private[Tensor]], clip: Clip) -> list[Bounded]:
    """One bounded value per unit."""
    return [seal(clip_rows(unwrap(update), clip), bound=clip.bound, norm=clip.norm, units=1) for update in updates]


def bound_sum(updates: list[Private[Tensor]], clip: Clip, *, like: Tensor) -> Bounded:
    """The sum of one clipped contribution per unit; with no unit at all, a bounded zero."""
    total = torch.zeros_like(like)
    for update in updates:
        total += clip_rows(unwrap(update), clip)
    return seal(total, bound=clip.bound, norm=clip.norm, units=len(updates))


def bound_clipped(total: Private[Tensor], clip: Clip, *, units: int) -> Bounded:
    """A sum whose contributions were clipped one by one where they were computed (per-example gradients)."""
    return seal(unwrap(total), bound=clip.bound, norm=clip.norm, units=units)
