"""Files to predict: tables, archives and images, without labels."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sordino.core import SordinoError
from sordino.data.examples import Examples
from sordino.data.formats.images import SUFFIXES
from sordino.data.formats.table import TableFile
from sordino.data.images import decode
from sordino.data.preparation import Preparation
from sordino.data.raw import Array, reading
from sordino.data.table import Table, read_table

ARRAYS = ("x", "x_test", "x_train")
"""Arrays of an .npz archive, the first that is there is predicted."""


def read_inputs(path: Path, preparation: Preparation) -> Examples:
    """The rows of a file, prepared as in training."""
    if not path.exists():
        raise SordinoError(f"A file to predict was expected at {path}, but there is none; check the path.")
    if preparation.is_table:
        return preparation.of_table(open_table(path, preparation))
    if preparation.kind == "image" and path.suffix not in (".npz", ".npy"):
        side = preparation.shape[1] if preparation.shape[1] == preparation.shape[2] else None
        with reading(path):
            return preparation.of_array(decode(image_files(path), resize=side).transpose(0, 2, 3, 1), str(path))
    return preparation.of_array(_array(path), str(path))


def open_table(path: Path, preparation: Preparation) -> Table:
    """A table as it stands in its file."""
    if not TableFile.accepts(path):
        raise SordinoError(
            f"{path} should be a CSV or Parquet table, but its name ends otherwise; give {preparation.wanted}."
        )
    with reading(path):
        return read_table(path, preparation.dialect, preparation.separator)


def image_files(path: Path) -> list[Path]:
    """An image file, or those in a folder in the order of their names."""
    found = [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.suffix.lower() in SUFFIXES)
    if not found:
        raise SordinoError(f"{path} should hold image files, but there are none; check the path.")
    return found


def _array(path: Path) -> Array:
    with reading(path):
        loaded = np.load(path, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return loaded
        name = next((name for name in ARRAYS if name in loaded), None)
        if name is None:
            raise SordinoError(
                f"{path} should hold an array called {', '.join(ARRAYS[:2])} or {ARRAYS[2]}, but has none; save one."
            )
        array: Array = loaded[name]
        return array
