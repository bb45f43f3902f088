"""Targets that are numbers on a scale, such as days or a price, between public bounds."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sordino.core import SordinoError
from sordino.data.columns.cells import Cells
from sordino.data.columns.number import refuse_words
from sordino.sentences import shown
from sordino.settings import validated

EXAMPLE = "{ kind = 'number', low = 0, high = 100 }"
MEND = 'mend it, widen low and high, or set outside = "clip" in [data.options] target'
PARTS = 5
"""Into so many equal parts of its range a target is cut where clients are dealt rows by what they are to learn."""


@dataclass(frozen=True, kw_only=True)
class Target:
    """A number to learn: `target = { kind = "number", low = 0, high = 100 }`.

    A model learns the place (y − low) / (high − low), from 0 to 1, and predicts nothing outside the bounds. They are public constants
    of the person's choosing. What lies outside is refused by its row, or with `outside = "clip"` moved to the bound.
    """

    low: float
    high: float
    outside: Literal["refuse", "clip"] = "refuse"

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise SordinoError(
                f"low should be below high, both finite, but got {self.low:g} and {self.high:g}; correct them."
            )

    @property
    def range(self) -> float:
        return self.high - self.low

    def of_cells(self, cells: Cells) -> NDArray[np.float64]:
        """A column of a table in its own unit; a cell that is no number between the bounds is named."""
        cells.refuse_missing("a row without a target cannot be learnt from, so fill it or drop the row")
        refuse_words(cells)
        cells.refuse(self._bad(cells.numbers), f"numbers from {self.low:g} to {self.high:g}", MEND)
        return cells.numbers

    def of_array(self, values: NDArray[Any], source: str) -> NDArray[np.float32]:
        """The place in the range of each of these values, from 0 to 1."""
        flat = values.reshape(-1) if values.ndim == 2 and values.shape[1] == 1 else values
        if flat.ndim != 1 or flat.dtype.kind not in "uifb":
            raise SordinoError(
                f"target declares a number to learn, but the labels of {source!r} are {flat.dtype} of shape {values.shape}; give one "
                "number per example, or declare classes instead."
            )
        plain = flat.astype(np.float64)
        bad = self._bad(plain)
        if bad.any():
            at = int(bad.argmax())
            raise SordinoError(
                f"Targets of {source!r} should be numbers from {self.low:g} to {self.high:g}, but got {plain[at]:g} in row {at + 1}; "
                f"{MEND}."
            )
        return ((plain.clip(self.low, self.high) - self.low) / self.range).astype(np.float32)

    def _bad(self, values: NDArray[np.float64]) -> NDArray[np.bool_]:
        outside = (values < self.low) | (values > self.high)
        bad: NDArray[np.bool_] = ~np.isfinite(values) | (outside if self.outside == "refuse" else False)
        return bad

    def in_unit(self, places: NDArray[np.float64]) -> NDArray[np.float64]:
        """Places in the range as numbers in the target's own unit."""
        return (self.low + places * self.range).clip(self.low, self.high)

    @property
    def part_names(self) -> tuple[str, ...]:
        """The parts of the range, by their bounds."""
        edges = [self.low + self.range * part / PARTS for part in range(PARTS + 1)]
        return tuple(f"{one:g} to {other:g}" for one, other in pairwise(edges))

    def to_json(self) -> dict[str, Any]:
        return {"kind": "number", **dataclasses.asdict(self)}


def part_numbers(places: NDArray[Any]) -> NDArray[np.int64]:
    """Which part of its range each target lies in."""
    return np.minimum(places.astype(np.float64) * PARTS, PARTS - 1).astype(np.int64)


def predicted_places(outputs: Tensor) -> Tensor:
    """Where in the range a model's outputs (N x 1) put each row; an output that is no number puts it at the lower bound."""
    return torch.nan_to_num(outputs[:, 0].double(), nan=-torch.inf).sigmoid()


def target_of(table: Mapping[str, Any]) -> Target:
    """What `[data.options] target` declares."""
    rest = dict(table)
    kind = rest.pop("kind", None)
    if kind != "number":
        raise SordinoError(
            f"[data.options] target should be a table such as {EXAMPLE}, but got kind = {shown(kind)}; classes need no target, only "
            "label_column and classes = [...]."
        )
    for name in ("low", "high"):
        if name not in rest:
            raise SordinoError(
                f"[data.options] target needs {name}, a public bound of what is learnt, which no row may tell; write {EXAMPLE}."
            )
    return validated(Target, rest, where="data.options.target")
