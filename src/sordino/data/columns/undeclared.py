"""What a column holds where nobody says: numbers or words, and no mixture of both."""

from __future__ import annotations

import numpy as np

from sordino.core import SordinoError
from sordino.data.columns.category import Category
from sordino.data.columns.cells import Cells
from sordino.data.columns.declared import Column
from sordino.data.columns.number import Number
from sordino.sentences import shown

MOST_UNDECLARED_CATEGORIES = 256


def taken_from(cells: Cells) -> Column:
    """The kind of column that these cells fit, with the words found in them; whoever declares none makes those public."""
    _refuse_dates(cells)
    filled = ~cells.is_missing
    if not filled.any():
        raise SordinoError(f"{cells.place} holds no value at all; leave it out by columns in [data.options].")
    if cells.is_number[filled].all():
        return Number()
    if cells.is_number.any():
        _refuse_mixture(cells)
    return _words(cells)


def _words(cells: Cells) -> Category:
    cells.refuse_missing(
        f"fill it, drop the row, or declare columns.{cells.name} = {{ kind = 'category', values = [...], missing = ... }}"
    )
    values = np.unique(cells.words.to_numpy(dtype=str))
    if len(values) > MOST_UNDECLARED_CATEGORIES:
        raise SordinoError(
            f"{cells.place} holds {len(values)} different words; name it as text_column, leave it out by columns, or declare "
            f"columns.{cells.name} with its values in [data.options]."
        )
    return Category(values=tuple(map(str, values)))


def _refuse_mixture(cells: Cells) -> None:
    words = ~cells.is_number & ~cells.is_missing
    at = int(words.argmax())
    raise SordinoError(
        f"{cells.place} holds numbers, but got {shown(str(cells.words.iloc[at]))} {cells.row(at)}; {cells.how_to_read(at)}, or declare "
        f"columns.{cells.name} = {{ kind = 'category', values = [...] }}."
    )


def _refuse_dates(cells: Cells) -> None:
    if cells.series.dtype.kind in "Mm":
        raise SordinoError(
            f"{cells.place} holds dates or times, which are neither numbers nor words; turn them into a number such as days since "
            "admission, or leave the column out by columns in [data.options]."
        )
