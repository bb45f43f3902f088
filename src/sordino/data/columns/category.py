"""Columns of words, one number per declared word."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from sordino.core import SordinoError
from sordino.data.columns.cells import Cells
from sordino.sentences import listed


@dataclass(frozen=True, kw_only=True)
class Category:
    """A column of words: `columns.sex = { kind = "category", values = ["f", "m"], missing = "f" }`.

    It becomes one number for each of `values`: 1 for the one that the row holds, 0 for the others. `missing` says which of
    them a missing value counts as, `other` which one any word besides them counts as; without these, both are refused by row.
    """

    values: tuple[str, ...]
    missing: str | None = None
    other: str | None = None

    kind: ClassVar[str] = "category"
    scaled: ClassVar[bool] = True
    bought: ClassVar[bool] = False
    buys_missing: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not self.values:
            raise SordinoError(
                "values should list the words of the column, but it is empty; write values = ['a', 'b']."
            )
        twice = next((value for value in self.values if self.values.count(value) > 1), None)
        if twice is not None:
            raise SordinoError(f"values should list every word once, but got {twice!r} twice; remove one.")
        for name in ("missing", "other"):
            told = getattr(self, name)
            if told is not None and told not in self.values:
                raise SordinoError(
                    f"{name} should be one of values, but got {told!r}; add it to values, or choose one of {listed(self.values)}."
                )

    @property
    def width(self) -> int:
        return len(self.values)

    def encode(self, cells: Cells) -> NDArray[np.float32]:
        """The column as one number for each of its values."""
        known = cells.words.isin(list(self.values)).to_numpy(dtype=bool)
        missing = cells.is_missing & ~known
        words = cells.words.to_numpy(dtype=object, copy=True)
        if self.missing is None:
            cells.refuse_missing(
                f"fill it, drop the row, or declare columns.{cells.name} = {{ kind = 'category', ..., missing = WORD }}",
                where=missing,
            )
        words[missing] = self.missing
        strange = ~known & ~missing
        if self.other is None:
            expected, advice = (
                f"one of {listed(self.values)}",
                "mend it, add it to values, or say in other what it counts as",
            )
            cells.refuse(strange, expected, f"{advice}, in columns.{cells.name}")
        words[strange] = self.other
        hot: NDArray[np.bool_] = words[:, None] == np.array(self.values, dtype=object)
        return hot.astype(np.float32)
