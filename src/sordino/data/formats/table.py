"""CSV and Parquet tables with numeric, categorical or text columns."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sordino.core import SordinoError, unknown
from sordino.data.formats import FORMATS
from sordino.data.raw import Array, Raw, in_memory, reading
from sordino.data.settings import SourceSettings
from sordino.data.text import token_numbers

if TYPE_CHECKING:
    from pandas import DataFrame, Series

CSV_SUFFIXES = (".csv", ".csv.gz", ".csv.xz", ".csv.bz2")
MOST_UNDECLARED_CATEGORIES = 256


@FORMATS.register("table")
class Table:
    """CSV (also .gz, .xz, .bz2) or Parquet: text_column becomes tokens, otherwise columns become numbers.

    A column of words, or one with declared `categories`, becomes one number per category, 1 for the one it holds.
    Categories that are not declared are taken from the column, and by that are declared public.
    """

    @staticmethod
    def accepts(path: Path) -> bool:
        return path.is_file() and path.name.lower().endswith((*CSV_SUFFIXES, ".parquet"))

    @staticmethod
    def read(path: Path, settings: SourceSettings) -> Raw:
        frame = _frame(path)
        labels = _column(frame, settings.label_column, path).to_numpy()
        client = settings.client_column
        columns = {client: _column(frame, client, path).to_numpy()} if client else {}
        if settings.text_column:
            texts = _column(frame, settings.text_column, path).fillna("").astype(str).tolist()
            tokens = token_numbers(texts, vocabulary=settings.vocabulary, length=settings.length)
            return Raw(kind="text", train=in_memory(tokens, labels), columns=columns, vocabulary=settings.vocabulary)
        features, layout = _features(frame, path, settings)
        return Raw(kind="tabular", train=in_memory(features, labels), columns=columns, layout=layout)


def _frame(path: Path) -> DataFrame:
    import pandas

    with reading(path):
        if path.suffix == ".parquet":
            return pandas.read_parquet(path)
        return pandas.read_csv(path, keep_default_na=False, na_values=["", "nan", "NaN"])


def _column(frame: DataFrame, name: str, path: Path) -> Series:
    if name not in frame.columns:
        raise SordinoError(unknown(f"column in {path}", name, map(str, frame.columns)))
    return frame[name]


def _features(frame: DataFrame, path: Path, settings: SourceSettings) -> tuple[Array, dict[str, tuple[str, ...]]]:
    """The columns side by side as numbers, and what each of them became."""
    left_out = {settings.label_column, settings.client_column}
    names = settings.columns or tuple(name for name in map(str, frame.columns) if name not in left_out)
    if not names:
        raise SordinoError(f"{path} has no column besides label and client; add the columns to learn from.")
    made = {name: _numbers(_column(frame, name, path), name, settings) for name in names}
    layout = {name: categories for name, (_, categories) in made.items()}
    return np.concatenate([numbers for numbers, _ in made.values()], axis=1), layout


def _numbers(column: Series, name: str, settings: SourceSettings) -> tuple[Array, tuple[str, ...]]:
    """One column as numbers, and its categories where it holds words."""
    from pandas.api.types import is_numeric_dtype

    declared = settings.categories.get(name)
    if declared is None and is_numeric_dtype(column.dtype):
        numbers: Array = column.to_numpy(dtype=np.float32, na_value=np.nan)
        return numbers[:, None], ()
    if column.isna().any():
        raise SordinoError(
            f"Column {name!r} has missing values, first in row {int(column.isna().argmax()) + 1}; fill or drop them."
        )
    words = column.astype(str).to_numpy(dtype=str)
    categories = np.array(declared) if declared else np.unique(words)
    if not declared and len(categories) > MOST_UNDECLARED_CATEGORIES:
        raise SordinoError(
            f"Column {name!r} holds {len(categories)} different words; "
            "name it as text_column, leave it out by columns, or declare its categories."
        )
    strange = ~np.isin(words, categories)
    if strange.any():
        raise SordinoError(
            unknown(f"declared category of column {name!r}", str(words[strange][0]), map(str, categories))
        )
    one_hot: Array = words[:, None] == categories
    return one_hot.astype(np.float32), tuple(map(str, categories))
