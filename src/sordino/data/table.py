"""A table of named columns: from cells to the numbers, labels and clients of its rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sordino.core import SordinoError, unknown
from sordino.data.columns.cells import Cells
from sordino.data.columns.declared import Column
from sordino.data.columns.dialect import Dialect
from sordino.data.columns.undeclared import taken_from
from sordino.data.csv_file import read_csv
from sordino.data.limits import refuse_larger
from sordino.data.raw import Array
from sordino.data.target import Target
from sordino.sentences import listed, shown

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True, kw_only=True)
class Table:
    """A frame and the name that sentences give it."""

    frame: DataFrame
    file: str
    dialect: Dialect

    def cells(self, name: str, advice: str = "") -> Cells:
        """One column; `advice` says which setting names it."""
        if name not in self.frame.columns:
            sentence = unknown(f"column in {self.file}", name, map(str, self.frame.columns))
            raise SordinoError(f"{sentence.removesuffix('.').removesuffix('?')}, {advice}." if advice else sentence)
        return Cells(name=name, file=self.file, series=self.frame[name], dialect=self.dialect)

    def columns(self, names: Mapping[str, Column | None]) -> dict[str, Column]:
        """Every column as declared; where nothing is (None), as its cells are."""
        return {name: taken_from(self.cells(name)) if known is None else known for name, known in names.items()}

    def features(self, columns: Mapping[str, Column]) -> Array:
        """The columns side by side as numbers."""
        return np.concatenate([column.encode(self.cells(name)) for name, column in columns.items()], axis=1)

    def texts(self, name: str) -> list[str]:
        """A column of text; an empty cell is an empty text."""
        cells = self.cells(name, "and [data.options] text_column names it")
        found: list[str] = cells.series.astype("str").fillna("").tolist()
        return found

    def labels(self, name: str, class_names: tuple[str, ...]) -> Array:
        """The target as class numbers where it holds numbers, else as words to be looked up among the class names."""
        cells = self.cells(name, "and [data.options] label_column names it, or label in Data(...)")
        known = cells.words.isin(list(class_names)).to_numpy(dtype=bool)
        cells.refuse_missing(
            "a row without a label cannot be learnt from, so fill it or drop the row", cells.is_missing & ~known
        )
        numeric = ~np.isnan(cells.numbers) & (cells.series.dtype.kind != "b")
        if class_names and (not numeric.all() or all(_is_whole(word) for word in class_names)):
            cells.refuse(
                ~known, "one of the declared classes", f"mend it, or add it to classes = [{listed(class_names)}]"
            )
        elif numeric.all():
            return _whole(cells)
        elif numeric.any():
            cells.refuse(
                ~numeric, "class numbers", "mend it, or declare classes = [...] with every class in [data.options]"
            )
        words: Array = cells.words.to_numpy(dtype=str)
        return words

    def targets(self, name: str, target: Target) -> Array:
        """The target in its own unit, where it is a number."""
        return target.of_cells(self.cells(name, "and [data.options] label_column names it, or label in Data(...)"))

    def clients(self, name: str) -> Array:
        """Whose each row is: numbers where all are written as plain whole numbers, else words."""
        cells = self.cells(name, "and [data.options] client_column names it")
        empty = (cells.words == "").to_numpy(dtype=bool) | cells.series.isna().to_numpy(dtype=bool)
        if empty.any():
            raise SordinoError(
                f"The client column {name!r} of {self.file} has no value {cells.row(int(empty.argmax()))}; fill or drop such rows."
            )
        words: Array = cells.words.to_numpy(dtype=str)
        return words.astype(np.int64) if all(map(_is_whole, np.unique(words))) else words


def _is_whole(word: str) -> bool:
    """Whether a word is a whole number in its only plain form, so that no two words are the same number."""
    return len(word) < 18 and word.removeprefix("-").isdecimal() and word.isascii() and str(int(word)) == word


def _whole(cells: Cells) -> Array:
    values = cells.numbers
    strange = ~np.isfinite(values) | (values != np.floor(values))
    if strange.any():
        at = int(strange.argmax())
        raise SordinoError(
            f"{cells.place} should hold classes, but got {shown(str(cells.words.iloc[at]))} {cells.row(at)}: declare "
            "target = { kind = 'number', low = ..., high = ... } in [data.options] to learn a number, or cut the scale into classes."
        )
    return values.astype(np.int64)


def read_table(path: Path, dialect: Dialect, separator: str | None) -> Table:
    """A CSV or Parquet file."""
    frame = _parquet(path) if path.suffix.lower() == ".parquet" else read_csv(path, separator)
    if frame.empty:
        raise SordinoError(f"{path} holds no examples, only a header; check the file.")
    return Table(frame=frame, file=str(path), dialect=dialect)


def _parquet(path: Path) -> DataFrame:
    """Repeated values take no room in the file, so rows times columns count too."""
    import pandas
    from pyarrow.parquet import ParquetFile

    with ParquetFile(path) as file:
        facts = file.metadata
        unpacked = sum(facts.row_group(number).total_byte_size for number in range(facts.num_row_groups))
        refuse_larger(path, max(unpacked, facts.num_rows * facts.num_columns))
    return pandas.read_parquet(path).reset_index(drop=True)
