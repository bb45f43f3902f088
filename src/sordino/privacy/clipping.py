"""Clipping: what turns a private contribution into a bounded one."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor

from sordino.core import Bounded, Norm, Private, SordinoError, seal, unwrap, unwrap_product
from sordino.kernels.bounded_sums import add_products, suits_rows, sums_of_squares

_ROUNDING = 1 - 2.0**-18
"""Room for the rounding of a float32 norm and of the scaled row."""

_STORED: dict[torch.dtype, Callable[[float], float]] = {
    torch.float32: lambda x: float(np.float32(x)),
    torch.float64: float,
}
"""Types of numbers that are precise enough, and a number as each of them stores it."""


@dataclass(frozen=True, kw_only=True)
class Clip:
    """The largest norm that one unit's contribution may have; whatever is longer is scaled down to it.

    Args:
        bound: of the norm, in units of the update or gradient; infinite where no privacy is claimed.
        norm: "l2" or "l1", as the mechanism needs it.

    Example:
        `Clip(bound=0.5, norm="l2")`
    """

    bound: float
    norm: Norm
    groups: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Parameters that are clipped apart from one another, each group to the bound; none where all are clipped as one."""

    @property
    def sensitivity(self) -> float:
        """How far one unit moves the sum: by the bound, or where groups are clipped apart by the norm of all their bounds."""
        return self.bound * widening(len(self.groups), self.norm)

    def __post_init__(self) -> None:
        if math.isnan(self.bound) or self.bound <= 0:
            raise SordinoError(f"The clip norm must be a positive number, but got {self.bound}; set one such as 1.0.")


def widening(groups: int, norm: Norm) -> float:
    """The norm of as many ones as there are groups that are clipped apart: √2 in L2 for two."""
    return math.sqrt(max(1, groups)) if norm == "l2" else float(max(1, groups))


def clip_factors(rows: Tensor, clip: Clip) -> Tensor:
    """What each row is multiplied by so that its norm stays within the bound; zero for a row with a NaN or an infinity.

    Formal guarantee: the scaled row has norm at most `clip.bound`, whatever came in. The factor leaves room for the rounding
    of float32, so the bound holds for the stored numbers too; a factor too small to be stored to full precision is zero.
    """
    return factors_of(_norm(rows, clip.norm), clip, rows.dtype)


def factors_of(norms: Tensor, clip: Clip, dtype: torch.dtype) -> Tensor:
    """The same for rows of these norms, whose numbers are of this type."""
    limit = clip.bound * _ROUNDING
    factors = torch.where(norms > limit, limit / norms, torch.ones_like(norms))
    stored = torch.isfinite(norms) & (factors >= torch.finfo(dtype).tiny)
    return torch.where(stored, factors, torch.zeros_like(norms)).to(dtype)


def factor_of(norm: float, clip: Clip, dtype: torch.dtype) -> float:
    """The same for a single row, to the same bits and without tensors of one number."""
    limit = clip.bound * _ROUNDING
    factor = limit / norm if norm > limit else 1.0
    stored = math.isfinite(norm) and factor >= torch.finfo(dtype).tiny
    return _STORED[dtype](factor) if stored else 0.0


def bound_update(update: Private[Tensor], clip: Clip, *, like: Tensor) -> Bounded:
    """One unit's contribution, clipped. The tensor that came in is left as it is.

    A contribution of another shape than `like` is refused: one number stretched over all coordinates would have many times
    its norm.
    """
    row = _row(update, like)
    factor = factor_of(_lengths([row], clip.norm)[0], clip, row.dtype)
    return _bounded(row * factor if 0 < factor < 1 else row, factor == 0, clip)


def bound_updates(updates: Sequence[Private[Tensor]], clip: Clip, *, like: Tensor) -> list[Bounded]:
    """The same for many units whose tensors nobody else holds: none is copied, each is multiplied when it is read."""
    rows = [_row(update, like) for update in updates]
    lengths = _lengths(rows, clip.norm)
    factors = [factor_of(length, clip, row.dtype) for row, length in zip(rows, lengths, strict=True)]
    return [_bounded(row, factor == 0, clip, factor=factor or 1.0) for row, factor in zip(rows, factors, strict=True)]


def _bounded(row: Tensor, broken: bool, clip: Clip, factor: float = 1.0) -> Bounded:
    kept = torch.zeros_like(row) if broken else row
    return seal(kept, bound=clip.bound, norm=clip.norm, units=1, zeroed=int(broken), factor=factor)


def _row(update: Private[Tensor], like: Tensor) -> Tensor:
    row = _shaped(unwrap(update), like)
    _refuse_coarse(row)
    return row


def received_bounded(value: Tensor, clip: Clip) -> Bounded | None:
    """A value that a client says is bounded, if it is: finite and no longer than the clip allows."""
    (length,) = _lengths([value], clip.norm)
    return seal(value, bound=clip.bound, norm=clip.norm, units=1) if length <= clip.bound else None


def read_bounded(value: Bounded) -> Tensor:
    """The bounded value itself, for a client that hands it to a server which adds the noise."""
    total: Tensor = unwrap(value)
    return total


def sum_bounded(values: Sequence[Bounded], clip: Clip, *, like: Tensor) -> Bounded:
    """The sum of one bounded contribution per unit, each of the shape of `like`; of nobody's, a bounded zero."""
    _refuse_coarse(like)
    total, rows, factors = torch.zeros_like(like, memory_format=torch.contiguous_format), [], []
    for value in values:
        if value.norm != clip.norm or value.bound > clip.bound:
            raise SordinoError(
                f"Contributions to a sum must be bounded by {clip.norm} {clip.bound:g}, but got one bounded by {value.norm} "
                f"{value.bound:g}; clip it first."
            )
        found, factor = unwrap_product(value)
        rows.append(_shaped(found, like))
        factors.append(factor)
    _add_products(total, rows, factors)
    units, zeroed = sum(value.units for value in values), sum(value.zeroed for value in values)
    return seal(total, bound=clip.bound, norm=clip.norm, units=units, zeroed=zeroed)


def _add_products(total: Tensor, rows: Sequence[Tensor], factors: Sequence[float]) -> None:
    """Add all rows to `total`, each times its factor; compiled or not, to the same bits."""
    if rows and suits_rows([total, *rows]):
        add_products(total, rows, factors)
        return
    product = torch.empty_like(total)
    for row, factor in zip(rows, factors, strict=True):
        total.add_(row if factor == 1 else torch.mul(row, factor, out=product))


def _refuse_coarse(numbers: Tensor) -> None:
    if numbers.dtype not in _STORED:
        raise SordinoError(
            f"Clipped sums need numbers of at least 32 bits, whose rounding the clip leaves room for, but got {numbers.dtype}; "
            "keep models and updates in float32."
        )


def _shaped(row: Tensor, like: Tensor) -> Tensor:
    if row.shape != like.shape:
        raise SordinoError(
            f"A client's update must have shape {tuple(like.shape)}, as what it was sent, but got {tuple(row.shape)}; "
            "mend the job."
        )
    return row.detach()


def count_within(update: Private[Tensor], clip: Clip, *, like: Tensor) -> Bounded:
    """Whether a contribution needs no clipping: a count that one unit moves by at most 1."""
    return count_norms_within(update.map(lambda row: _norm(row, clip.norm).reshape(1)), clip, like=like)


def count_norms_within(norms: Private[Tensor], clip: Clip, *, like: Tensor) -> Bounded:
    """How many of these norms, one for each unit, are within the clip; a norm that is not a number is not."""
    found: Tensor = unwrap(norms)
    within = (found <= clip.bound).sum().to(like).reshape(1)
    return seal(within, bound=1.0, norm=clip.norm, units=len(found))


_ORDERS: dict[Norm, int] = {"l1": 1, "l2": 2}


def _norm(rows: Tensor, norm: Norm) -> Tensor:
    """Of each row, summed in double precision: in single, long rows would be found too short, and squares could vanish or overflow."""
    found: Tensor = torch.linalg.vector_norm(rows, ord=_ORDERS[norm], dim=-1, dtype=torch.float64)
    return found


def _lengths(rows: Sequence[Tensor], norm: Norm) -> list[float]:
    """The same of each row by itself; for L2 in one pass where there are kernels, else in half the time of torch's norm."""
    if norm == "l2" and suits_rows(rows):
        return [math.sqrt(total) for total in sums_of_squares(rows)]
    return [_length(row, norm) for row in rows]


def _length(row: Tensor, norm: Norm) -> float:
    if norm == "l1" or row.dim() != 1:
        return float(_norm(row, norm))
    precise = row.to(torch.float64)
    return math.sqrt(torch.dot(precise, precise).item())


class ClippedContributions(Protocol):
    """A sum whose contributions were clipped one by one where they were computed, such as per-example gradients."""

    @property
    def total(self) -> Tensor: ...

    @property
    def nonfinite(self) -> int: ...


Clipped = TypeVar("Clipped", bound=ClippedContributions)


def bound_clipped(contributions: Private[Clipped], clip: Clip, *, units: int) -> Bounded:
    found: ClippedContributions = unwrap(contributions)
    return seal(found.total, bound=clip.sensitivity, norm=clip.norm, units=units, zeroed=found.nonfinite)


@dataclass(frozen=True, kw_only=True)
class StatisticBound:
    """The public range of a number about one owner's rows, and how far it moves when one row contributes nothing.

    `moves` is proved where the statistic is defined. The proof must also hold in this form: when a row is replaced, the
    number moves by at most twice as much.
    """

    largest: float
    moves: float

    def __post_init__(self) -> None:
        if not (0 < self.largest < math.inf and 0 < self.moves < math.inf):
            raise SordinoError(
                f"A statistic needs a finite range and sensitivity above zero, but got {self.largest} and {self.moves}."
            )

    @property
    def sensitivity(self) -> float:
        return min(self.moves, self.largest)


def bound_statistic(value: Private[float], bound: StatisticBound, norm: Norm = "l1") -> Bounded:
    """The number clamped to [0, largest], with what one row can change of it; a number that is not finite counts as zero.

    Formal guarantee: clamping brings two numbers no further apart, so the clamped one moves by no more than the number does,
    and by no more than its range is wide. A single number has the same length in every norm.
    """
    found: float = unwrap(value)
    finite = math.isfinite(found)
    clamped = min(max(found, 0.0), bound.largest) if finite else 0.0
    total = torch.tensor([clamped], dtype=torch.float64)
    return seal(total, bound=bound.sensitivity, norm=norm, units=1, zeroed=int(not finite))
