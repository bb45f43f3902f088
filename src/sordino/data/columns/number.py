"""Columns of numbers, brought to [-1, 1] by public bounds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from sordino.core import SordinoError
from sordino.data.columns.cells import Cells

BOUGHT = "bought"


@dataclass(frozen=True, kw_only=True)
class Number:
    """A column of numbers: `columns.age = { kind = "number", low = 0, high = 110, missing = 50 }`.

    With both bounds, a value x becomes 2·(x − low) / (high − low) − 1. Without them it is used as it stands. Bounds and
    the number that takes the place of missing values are constants of the person's choosing, in the column's own unit;
    nothing is computed from the data. With `missing = "bought"` it is the mean of the others, released with noise and charged.
    With `scaling = "bought"` their mean and standard deviation, released likewise, bring it to a mean of 0 and a deviation of 1.
    What lies outside is refused by its row, or with `outside = "clip"` moved to the bound.
    """

    low: float | None = None
    high: float | None = None
    missing: float | Literal["bought"] | None = None
    outside: Literal["refuse", "clip"] = "refuse"
    scaling: Literal["bought"] | None = None

    kind: ClassVar[str] = "number"
    width: ClassVar[int] = 1

    def __post_init__(self) -> None:
        if (self.low is None) != (self.high is None):
            raise SordinoError(
                f"low and high belong together, but got {'high' if self.low is None else 'low'} alone; give both, or neither."
            )
        if self.low is not None and self.high is not None and not self.low < self.high:
            raise SordinoError(f"low should be below high, but got {self.low:g} and {self.high:g}; correct them.")
        if self.buys_missing and not self.scaled:
            raise SordinoError(
                'missing = "bought" buys a mean, which public bounds must hold; give low and high, or a number for missing.'
            )
        if self.buys_scaling and not self.scaled:
            raise SordinoError(
                'scaling = "bought" buys a mean and a spread, which public bounds must hold; give low and high, or leave scaling out.'
            )
        if isinstance(self.missing, float) and not self._low <= self.missing <= self._high:
            raise SordinoError(
                f"missing should lie between low and high, but got {self.missing:g}; choose a value from {self._low:g} to {self._high:g}."
            )

    @property
    def scaled(self) -> bool:
        """Whether public bounds bring the column to [-1, 1]."""
        return self.low is not None

    def unscaled_value(self, fed: float) -> float:
        """The value for which a model is fed this."""
        return fed if self.low is None or self.high is None else self.low + (fed + 1) / 2 * (self.high - self.low)

    @property
    def bought(self) -> bool:
        """Whether statistics of it are released before the first round."""
        return self.buys_missing or self.buys_scaling

    @property
    def buys_missing(self) -> bool:
        """Whether a released mean takes the place of missing values, which are NaN until then."""
        return self.missing == BOUGHT

    @property
    def buys_scaling(self) -> bool:
        """Whether a released mean and deviation scale it."""
        return self.scaling == BOUGHT

    @property
    def _low(self) -> float:
        return -math.inf if self.low is None else self.low

    @property
    def _high(self) -> float:
        return math.inf if self.high is None else self.high

    def encode(self, cells: Cells) -> NDArray[np.float32]:
        """The column as one number per row."""
        refuse_words(cells)
        values = cells.numbers.copy()
        if self.missing is None:
            cells.refuse_missing(
                f"fill it, drop the row, or declare columns.{cells.name} = {{ kind = 'number', ..., missing = NUMBER }}"
            )
        else:
            values[cells.is_missing] = self.low if isinstance(self.missing, str) else self.missing
        cells.refuse(np.isinf(values), "finite numbers", "mend it or drop the row")
        if self.outside == "refuse":
            self._refuse_outside(cells, values)
        found = self._scaled(values.clip(self._low, self._high)).astype(np.float32)
        if self.buys_missing:
            found[cells.is_missing] = np.nan
        return found[:, None]

    def _scaled(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        if self.low is None or self.high is None:
            return values
        return 2 * (values - self.low) / (self.high - self.low) - 1

    def _refuse_outside(self, cells: Cells, values: NDArray[np.float64]) -> None:
        cells.refuse(
            (values < self._low) | (values > self._high),
            f"numbers from {self._low:g} to {self._high:g}",
            f'mend it, widen low and high, or set outside = "clip" in columns.{cells.name}',
        )


def refuse_words(cells: Cells) -> None:
    """Refuse the first cell that is neither a number nor missing."""
    words = np.isnan(cells.numbers) & ~cells.is_missing
    if words.any():
        cells.refuse(words, "numbers", cells.how_to_read(int(words.argmax())))
