"""One column of a table as it stands in its file, and the sentences that name a bad cell."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from sordino.core import SordinoError
from sordino.data.columns.dialect import Dialect
from sordino.sentences import shown

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pandas import Series

HINTS = {
    "decimal = ','": Dialect(decimal=","),
    "thousands = ','": Dialect(thousands=","),
    "decimal = ',' and thousands = '.'": Dialect(decimal=",", thousands="."),
    'thousands = "\'"': Dialect(thousands="'"),
}
"""Settings that would make a number of a word that is none yet."""


@dataclass(frozen=True, kw_only=True)
class Cells:
    """The cells of column `name` of `file`. The index of `series` counts the rows below the header, from zero."""

    name: str
    file: str
    series: Series
    dialect: Dialect

    @cached_property
    def words(self) -> Series:
        """Every cell as text without spaces around it; a whole number as such, however it is kept."""
        from pandas.api.types import is_float_dtype

        text = self.series.astype("str").fillna("").str.strip()
        return text.str.removesuffix(".0") if is_float_dtype(self.series.dtype) else text

    @cached_property
    def is_missing(self) -> NDArray[np.bool_]:
        return self.dialect.is_missing(self.words) | self.series.isna().to_numpy(dtype=bool)

    @cached_property
    def numbers(self) -> NDArray[np.float64]:
        """NaN where a cell is missing or no number."""
        from pandas.api.types import is_numeric_dtype

        if is_numeric_dtype(self.series.dtype):
            found: NDArray[np.float64] = self.series.to_numpy(dtype=np.float64, na_value=np.nan)
            return found
        return self.dialect.numbers(self.words)

    @property
    def is_number(self) -> NDArray[np.bool_]:
        return ~np.isnan(self.numbers) & ~self.is_missing

    @property
    def place(self) -> str:
        return f"Column {self.name!r} of {self.file}"

    def row(self, at: int) -> str:
        return f"in row {int(self.series.index[at]) + 1} below the header"

    def refuse(self, bad: NDArray[np.bool_], expected: str, advice: str) -> None:
        """Refuse the first cell that is bad, by its row and what it holds."""
        if bad.any():
            at = int(bad.argmax())
            word = str(self.words.iloc[at])
            raise SordinoError(f"{self.place} should hold {expected}, but got {shown(word)} {self.row(at)}; {advice}.")

    def refuse_missing(self, advice: str, where: NDArray[np.bool_] | None = None) -> None:
        """Refuse the first cell without a value, by its row."""
        missing = self.is_missing if where is None else where
        if missing.any():
            at = int(missing.argmax())
            word = str(self.words.iloc[at])
            told = f" ({shown(word)} stands for a missing one)" if word else ""
            raise SordinoError(f"{self.place} has no value {self.row(at)}{told}; {advice}.")

    def how_to_read(self, at: int) -> str:
        """What a person may do about a cell that should be a number and is not."""
        word = self.words.iloc[[at]]
        found = next((said for said, dialect in HINTS.items() if not np.isnan(dialect.numbers(word)).any()), None)
        if found is not None:
            return f"if it is a number, set {found} in [data.options]"
        return f"mend it, or add it to na in [data.options] if it stands for a missing value, as in na = [{str(word.iloc[0])!r}]"
