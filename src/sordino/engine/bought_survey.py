"""What clients release of their rows before the first round, for columns that are filled or scaled by statistics.

Every client has d rows (public). A value's place in its column's public range is a_k, from 0 to 1. Where it is missing, each summand
below is ½. For each such column a client releases, as far as they are needed,

    total = Σ a_k
    squares = Σ (2·a_k − 1)²
    filled = Σ b_k,  b_k = 1 where there is a value, 0 where it is missing

A row that contributes nothing counts ½ in each. So it moves each number by at most ½, and one that is replaced by at most 1, which is
twice as much, as `StatisticBound` asks.

Formal guarantee: each number is a Laplace release of every client, and all of a client's together cost `bought_epsilon` by plain
composition. Whatever is made of them afterwards is post-processing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from sordino.data.columns import Number
from sordino.data.examples import Examples
from sordino.methods.context import ClientContext
from sordino.privacy.clipping import StatisticBound

NOTHING = 0.5
"""What a row counts that contributes nothing, and by that the most that one row moves a number."""
EXACT_STEPS = 2**20
"""Summands are rounded down to this share, so that their sums are exact."""


def numbers_of(column: Number) -> tuple[str, ...]:
    """What is released of a column: a place to fill in, how widely values lie, and how many there are where some are missing."""
    squares = ("squares",) if column.buys_scaling else ()
    return ("total", *squares, *(("filled",) if column.buys_missing else ()))


@dataclass(frozen=True, kw_only=True)
class BoughtSurvey:
    """These numbers as every client is asked for them."""

    columns: Mapping[str, Number]
    places: Mapping[str, int]
    """By the column's name, where it stands among the numbers of a row."""
    noise_multiplier: float

    @property
    def names(self) -> Sequence[str]:
        return [f"{what} of {name}" for name, column in self.columns.items() for what in numbers_of(column)]

    def bound(self, name: str, size: int) -> StatisticBound:
        return StatisticBound(largest=float(size), moves=NOTHING)

    def measure(self, model: Tensor, examples: Examples, context: ClientContext) -> dict[str, float]:
        """The numbers, still private; the model says nothing about them."""
        absent = (context.size - len(examples)) * NOTHING
        found: dict[str, float] = {}
        for name, column in self.columns.items():
            values = held(examples.inputs[:, self.places[name]].double())
            missing = values.isnan()
            summands = {"total": (values + 1) / 2, "squares": values.square(), "filled": torch.ones_like(values)}
            for what in numbers_of(column):
                each = summands[what].masked_fill(missing, 0.0 if what == "filled" else NOTHING)
                found[f"{what} of {name}"] = float(((each * EXACT_STEPS).floor() / EXACT_STEPS).sum()) + absent
        return found


def held(values: Tensor) -> Tensor:
    """Values as they stand between the bounds, from −1 to 1, whatever a row holds; NaN stays."""
    return values.clamp(-1.0, 1.0)
