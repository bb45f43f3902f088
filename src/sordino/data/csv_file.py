"""CSV files as frames of words: nothing is guessed about their cells, and rows that do not fit the header are named."""

from __future__ import annotations

import bz2
import codecs
import csv
import gzip
import io
import lzma
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from sordino.core import SordinoError
from sordino.data.limits import LimitedReader
from sordino.sentences import listed

if TYPE_CHECKING:
    from pandas import DataFrame

SUFFIXES = (".csv", ".csv.gz", ".csv.xz", ".csv.bz2", ".tsv")
SEPARATORS = (",", ";", "\t", "|")
LONGEST_HEADER, LONGEST_ROW = 1 << 20, 1 << 24
"""Bytes in which a header is looked for, and of a row."""


def read_csv(path: Path, separator: str | None) -> DataFrame:
    """Every cell as text. The index counts rows below the header from zero; blank lines have numbers and are left out."""
    import pyarrow
    from pyarrow import csv as arrow

    names, sign = _header(path, separator)
    strange: list[arrow.InvalidRow] = []

    def note(row: arrow.InvalidRow) -> str:
        strange.append(row)
        return "skip"

    with _unpacked(path) as file, _unicode_errors(path):
        table = arrow.read_csv(
            file,
            read_options=arrow.ReadOptions(
                use_threads=False, column_names=names, skip_rows_after_names=1, block_size=LONGEST_ROW
            ),
            parse_options=arrow.ParseOptions(
                delimiter=sign, newlines_in_values=True, ignore_empty_lines=False, invalid_row_handler=note
            ),
            convert_options=arrow.ConvertOptions(
                column_types=dict.fromkeys(names, pyarrow.string()), strings_can_be_null=False
            ),
        )
    if strange:
        raise SordinoError(_misfit(path, strange[0], sign))
    frame: DataFrame = table.to_pandas()
    return frame if len(names) == 1 else frame[(frame != "").any(axis=1)]


def _misfit(path: Path, row: Any, sign: str) -> str:
    """The sentence for a row with more or fewer fields than the header; the parser counts the header as row 1."""
    return (
        f"{path} has {row.actual_columns} fields in row {row.number - 1} below the header, which names {row.expected_columns}; correct "
        f"the row, its quotes, or separator = {sign!r} in [data.options]."
    )


@contextmanager
def _unicode_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        if "UTF8" not in str(error):
            raise
        row = re.search(r"Row #(\d+)", str(error))
        raise _not_unicode(path, int(row[1]) - 1 if row else None) from error


def _header(path: Path, separator: str | None) -> tuple[list[str], str]:
    """The names of the columns, and the sign between them: as told, or the one that the header has most of."""
    with _unpacked(path) as file:
        text = _text(path, file.read(LONGEST_HEADER))
    line = next(iter(text.splitlines()), "")
    if not line.strip():
        raise SordinoError(f"{path} should begin with a header of column names, but got an empty line; add the names.")
    sign = separator or max(SEPARATORS, key=line.count)
    names = [name.strip() for name in next(csv.reader(io.StringIO(text), delimiter=sign))]
    _check_names(names, path)
    return names, sign


def _text(path: Path, first: bytes) -> str:
    """The first bytes of a file as text; the last sign may be cut off."""
    if first.startswith(b"PK"):
        raise SordinoError(
            f"{path} should be a CSV file, but got a ZIP archive, as spreadsheets are; save the sheet as CSV."
        )
    if b"\0" in first:
        raise SordinoError(f"{path} should be text in UTF-8, but got zero bytes, as UTF-16 has; save it as UTF-8.")
    try:
        return codecs.getincrementaldecoder("utf-8-sig")().decode(first)
    except UnicodeDecodeError as error:
        raise _not_unicode(path, first[: error.start].count(b"\n") or None) from error


def _not_unicode(path: Path, row: int | None) -> SordinoError:
    where = f"in row {row} below the header" if row else "in its header"
    return SordinoError(f"{path} should be text in UTF-8, but got other bytes {where}; save it as UTF-8.")


def _check_names(names: list[str], path: Path) -> None:
    twice = next((name for name in names if name and names.count(name) > 1), None)
    if twice is not None:
        raise SordinoError(f"{path} has two columns called {twice!r}; rename or remove one.")
    if "" in names:
        raise SordinoError(
            f"{path} has no name over column {names.index('') + 1} in its header ({listed(names)}); name it, or remove it if it only "
            "counts rows (pandas leaves it out with index=False)."
        )


def _unpacked(path: Path) -> io.BufferedReader:
    """The bytes of a CSV file, as far as memory holds them."""
    openers: dict[str, Callable[[Path], Any]] = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}
    opener = openers.get(path.suffix.lower(), _plain)
    return io.BufferedReader(LimitedReader(opener(path), path), 1 << 20)


def _plain(path: Path) -> BinaryIO:
    return path.open("rb")
