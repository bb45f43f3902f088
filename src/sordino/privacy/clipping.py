"""Clipping: what turns a private contribution into a bounded one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

import torch
from torch import Tensor

from sordino.core import Bounded, Norm, Private, SordinoError, seal, unwrap

_ROUNDING = 1 - 2.0**-18
"""Room for the rounding of a float32 norm and of the scaled row."""

_PRECISE = (torch.float32, torch.float64)


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


def bound_update(update: Private[Tensor], clip: Clip, *, like: Tensor, owned: bool = False) -> Bounded:
    """One unit's contribution, clipped. The tensor that came in is left as it is, unless it is `owned` and nobody else's.

    A contribution of another shape than `like` is refused: one number stretched over all coordinates would have many times
    its norm.
    """
    _refuse_coarse(like)
    row: Tensor = _shaped(unwrap(update), like)
    factor = float(factors_of(_norm(row, clip.norm), clip, row.dtype))
    if factor < 1:
        row = torch.mul(row, factor, out=row if owned else None) if factor > 0 else torch.zeros_like(row)
    return seal(row, bound=clip.bound, norm=clip.norm, units=1, zeroed=int(factor == 0))


def received_bounded(value: Tensor, clip: Clip) -> Bounded | None:
    """A value that a client says is bounded, if it is: finite and no longer than the clip allows."""
    length = float(_norm(value, clip.norm))
    return seal(value, bound=clip.bound, norm=clip.norm, units=1) if length <= clip.bound else None


def read_bounded(value: Bounded) -> Tensor:
    """The bounded value itself, for a client that hands it to a server which adds the noise."""
    total: Tensor = unwrap(value)
    return total


def sum_bounded(values: Sequence[Bounded], clip: Clip, *, like: Tensor) -> Bounded:
    """The sum of one bounded contribution per unit, each of the shape of `like`; of nobody's, a bounded zero."""
    _refuse_coarse(like)
    total, units, zeroed = torch.zeros_like(like), 0, 0
    for value in values:
        if value.norm != clip.norm or value.bound > clip.bound:
            raise SordinoError(
                f"Contributions to a sum must be bounded by {clip.norm} {clip.bound:g}, but got one bounded by {value.norm} "
                f"{value.bound:g}; clip it first."
            )
        total.add_(_shaped(unwrap(value), like))
        units, zeroed = units + value.units, zeroed + value.zeroed
    return seal(total, bound=clip.bound, norm=clip.norm, units=units, zeroed=zeroed)


def _refuse_coarse(like: Tensor) -> None:
    if like.dtype not in _PRECISE:
        raise SordinoError(
            f"Clipped sums need numbers of at least 32 bits, whose rounding the clip leaves room for, but got {like.dtype}; "
            "keep the model in float32."
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
