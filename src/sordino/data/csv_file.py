"""CSV files as frames of words: nothing is guessed about their cells, and rows that do not fit the header are named."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import lzma
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from sordino.core import SordinoError
from sordino.data.limits import LimitedReader
from sordino.sentences import listed

if TYPE_CHECKING:
    from pandas import DataFrame

SUFFIXES = (".csv", ".csv.gz", ".csv.xz", ".csv.bz2")
SEPARATORS = (",", ";", "\t", "|")
LONGEST_HEADER = 1 << 20
"""Bytes in which a header is looked for."""


def read_csv(path: Path, separator: str | None) -> DataFrame:
    """Every cell as text. The index counts rows below the header from zero; blank lines have numbers and are left out."""
    import pandas
    from pandas.errors import ParserWarning

    names, sign = _header(path, separator)
    with _unpacked(path) as file, warnings.catch_warnings():
        warnings.simplefilter("error", ParserWarning)
        try:
            frame = pandas.read_csv(
                file,
                sep=sign,
                dtype="str",
                names=names,
                header=0,
                index_col=False,
                keep_default_na=False,
                na_values=[],
                skip_blank_lines=False,
                encoding="utf-8-sig",
            )
        except ParserWarning as error:
            raise SordinoError(
                f"{path} has rows with more than the {len(names)} fields of its header; check the separator {sign!r} and the quotes."
            ) from error
        except UnicodeDecodeError as error:
            raise SordinoError(
                f"{path} should be text in UTF-8, but byte {error.start} of a part of it is {error.object[error.start]:#04x}; save it "
                "as UTF-8."
            ) from error
    return _without_blank_lines(frame, path)


def _without_blank_lines(frame: DataFrame, path: Path) -> DataFrame:
    frame = frame[~frame.isna().all(axis=1)] if frame.shape[1] > 1 else frame
    cut = frame.isna().any(axis=1).to_numpy()
    if cut.any():
        at = int(cut.argmax())
        raise SordinoError(
            f"{path} has only {int(frame.iloc[at].notna().sum())} of {frame.shape[1]} fields in row {int(frame.index[at]) + 1} below the "
            "header; complete the row or remove it."
        )
    return frame


def _header(path: Path, separator: str | None) -> tuple[list[str], str]:
    """The names of the columns, and the sign between them: as told, or the one that the header has most of."""
    with _unpacked(path) as file:
        text = file.read(LONGEST_HEADER).decode("utf-8-sig", errors="replace")
    line = next(iter(text.splitlines()), "")
    if not line.strip():
        raise SordinoError(f"{path} should begin with a header of column names, but got an empty line; add the names.")
    sign = separator or max(SEPARATORS, key=line.count)
    names = [name.strip() for name in next(csv.reader(io.StringIO(text), delimiter=sign))]
    _check_names(names, path)
    return names, sign


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
