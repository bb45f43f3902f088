"""How a file writes its values."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sordino.core import SordinoError

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pandas import Series

MISSING_WORDS = ("", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null")
"""What stands for a missing value, unless the experiment lists other words in `na`."""


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """The signs and words of a table: `decimal = ","` reads 27,3 and `thousands = "."` reads 1.250.

    `na` lists the words that stand for a missing value; an empty cell always does. Everything here is public.
    """

    decimal: str = "."
    thousands: str = ""
    na: tuple[str, ...] = MISSING_WORDS

    def __post_init__(self) -> None:
        if self.decimal not in (".", ","):
            raise SordinoError(f"decimal should be '.' or ',', but got {self.decimal!r}; write the sign of the file.")
        if self.thousands not in ("", ".", ",", "'", " ") or self.thousands == self.decimal:
            raise SordinoError(
                f"thousands should be '.', ',', \"'\" or ' ' and not the decimal sign {self.decimal!r}, but got {self.thousands!r}; "
                "write the sign that the file puts between groups of three digits, or leave it out."
            )

    def is_missing(self, words: Series) -> NDArray[np.bool_]:
        found: NDArray[np.bool_] = words.isin(["", *self.na]).to_numpy(dtype=bool)
        return found

    def numbers(self, words: Series) -> NDArray[np.float64]:
        """The words as numbers, and NaN where a word is none in this dialect."""
        plain = words
        if self.thousands:
            grouped = words.str.contains(self.thousands, regex=False).to_numpy(dtype=bool)
            well_grouped = words.str.fullmatch(self._grouped()).to_numpy(dtype=bool)
            plain = words.str.replace(self.thousands, "", regex=False).where(well_grouped | ~grouped, "?")
        if self.decimal == ",":
            plain = plain.where(~plain.str.contains(".", regex=False), "?").str.replace(",", ".", regex=False)
        return _parsed(plain)

    def _grouped(self) -> str:
        return rf"[+-]?\d{{1,3}}({re.escape(self.thousands)}\d{{3}})+({re.escape(self.decimal)}\d+)?"


def _parsed(words: Series) -> NDArray[np.float64]:
    """Words with a decimal point as numbers; the fast way takes columns of nothing else."""
    import pyarrow
    from pandas import to_numeric

    try:
        found: NDArray[np.float64] = pyarrow.array(words, pyarrow.string()).cast(pyarrow.float64()).to_numpy()
    except pyarrow.ArrowInvalid:
        found = to_numeric(words, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    return found
