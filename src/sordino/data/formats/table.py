"""CSV and Parquet tables with numeric, categorical or text columns."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from sordino.core import SordinoError, unknown
from sordino.data.formats import FORMATS
from sordino.data.limits import LimitedReader, refuse_larger
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
        with reading(path):
            return _raw(_frame(path), path, settings)


def _raw(frame: DataFrame, path: Path, settings: SourceSettings) -> Raw:
    labels = _column(frame, settings.label_column, path).to_numpy()
    client = settings.client_column
    columns = {client: _clients(_column(frame, client, path), path)} if client else {}
    if settings.text_column:
        texts = _column(frame, settings.text_column, path).fillna("").astype(str).tolist()
        tokens = token_numbers(texts, vocabulary=settings.vocabulary, length=settings.length)
        return Raw(kind="text", train=in_memory(tokens, labels), columns=columns, vocabulary=settings.vocabulary)
    features, layout = _features(frame, path, settings)
    return Raw(kind="tabular", train=in_memory(features, labels), columns=columns, layout=layout)


def _frame(path: Path) -> DataFrame:
    import pandas

    if path.suffix.lower() == ".parquet":
        _refuse_large_parquet(path)
        return pandas.read_parquet(path)
    with _unpacked(path) as file:
        return pandas.read_csv(file, keep_default_na=False, na_values=["", "nan", "NaN"])


def _unpacked(path: Path) -> io.BufferedReader:
    """The text of a CSV file, as far as memory holds it."""
    openers: dict[str, Callable[[Path], Any]] = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}
    opener = openers.get(path.suffix.lower(), _plain)
    return io.BufferedReader(LimitedReader(opener(path), path), 1 << 20)


def _plain(path: Path) -> BinaryIO:
    return path.open("rb")


def _refuse_large_parquet(path: Path) -> None:
    """Repeated values take no room in the file, so rows times columns count too."""
    from pyarrow.parquet import ParquetFile

    with ParquetFile(path) as file:
        facts = file.metadata
        unpacked = sum(facts.row_group(number).total_byte_size for number in range(facts.num_row_groups))
        refuse_larger(path, max(unpacked, facts.num_rows * facts.num_columns))


def _clients(column: Series, path: Path) -> Array:
    """Whose each row is; words are compared as words, whatever else the column holds."""
    if column.isna().any():
        raise SordinoError(
            f"The client column {column.name!r} of {path} has no value in row {int(column.isna().argmax()) + 1}; "
            "fill or drop such rows."
        )
    values: Array = column.to_numpy()
    return values.astype(str) if values.dtype.kind == "O" else values


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
    for name, (numbers, _) in made.items():
        if not (finite := np.isfinite(numbers).all(1)).all():
            raise SordinoError(
                f"Column {name!r} of {path} has a NaN, infinite or missing value, first in row {int(finite.argmin()) + 1}; "
                "fill or drop such rows."
            )
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
