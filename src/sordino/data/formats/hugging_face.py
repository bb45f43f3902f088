"""Data sets that Hugging Face's `datasets` saved to disk, read without that package."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sordino.core import SordinoError, unknown
from sordino.data.columns import tables_of
from sordino.data.formats import FORMATS
from sordino.data.formats.table import raw_table
from sordino.data.images import decode, survey
from sordino.data.limits import refuse_larger
from sordino.data.raw import Array, Raw, Split, reading
from sordino.data.settings import SourceSettings
from sordino.data.table import Table

if TYPE_CHECKING:
    import pyarrow

WHOLE, PARTS, STATE = "dataset_dict.json", "dataset_info.json", "state.json"
TRAIN, TEST = "train", ("test", "validation")


@FORMATS.register("hugging-face")
class HuggingFace:
    """Folder made by `save_to_disk` of Hugging Face's datasets: a table, texts (text_column) or a column of images."""

    @staticmethod
    def accepts(path: Path) -> bool:
        return path.is_dir() and any((path / name).is_file() for name in (WHOLE, PARTS))

    @staticmethod
    def read(path: Path, settings: SourceSettings) -> Raw:
        with reading(path):
            train, test = _splits(path)
            raw = _raw(train, settings)
            if test is None:
                return raw
            alike = settings if not raw.layout else dataclasses.replace(settings, columns=tables_of(raw.layout))
            return dataclasses.replace(raw, test=_raw(test, alike).train)


def _splits(path: Path) -> tuple[Path, Path | None]:
    """The folders of the rows to train on and to test on; a folder that is one split has no others."""
    if not (path / WHOLE).is_file():
        return path, None
    names = json.loads((path / WHOLE).read_text())["splits"]
    if TRAIN not in names:
        raise SordinoError(
            f"{path} should have a split called {TRAIN!r}, but has {', '.join(names)}; give the split's own folder."
        )
    test = next((name for name in TEST if name in names), None)
    return path / TRAIN, None if test is None else path / test


def _raw(folder: Path, settings: SourceSettings) -> Raw:
    table, features = _table(folder), json.loads((folder / PARTS).read_text())["features"]
    image = next((name for name, kind in features.items() if kind.get("_type") == "Image"), None)
    names = tuple(features.get(settings.label_column, {}).get("names") or ())
    if image is None:
        rows = Table(frame=table.to_pandas(), file=str(folder), dialect=settings.dialect)
        return dataclasses.replace(raw_table(rows, settings), class_names=names)
    return _images(table, image, names, folder, settings)


def _table(folder: Path) -> pyarrow.Table:
    """All rows of a split, from its Arrow files."""
    import pyarrow

    state = json.loads((folder / STATE).read_text())
    if state.get("_indices_files"):
        raise SordinoError(
            f"{folder} is a view of other rows; call flatten_indices() before save_to_disk, and save it again."
        )
    files = [folder / entry["filename"] for entry in state["_data_files"]]
    refuse_larger(folder, sum(file.stat().st_size for file in files))
    return pyarrow.concat_tables([_stream(file) for file in files])


def _stream(file: Path) -> pyarrow.Table:
    import pyarrow

    with pyarrow.memory_map(str(file)) as source, pyarrow.ipc.open_stream(source) as stream:
        return stream.read_all()


def _images(table: pyarrow.Table, column: str, names: tuple[str, ...], folder: Path, settings: SourceSettings) -> Raw:
    for wanted in (settings.label_column, settings.client_column):
        if wanted is not None and wanted not in table.column_names:
            raise SordinoError(unknown(f"column in {folder}", wanted, table.column_names))
    files = [_bytes(cell, row, folder) for row, cell in enumerate(table.column(column).to_pylist())]
    labels: Array = np.asarray(table.column(settings.label_column).to_pylist())
    client = settings.client_column

    def inputs() -> Array:
        with reading(folder):
            return decode(files, resize=settings.resize)

    return Raw(
        kind="image",
        train=Split(count=len(files), shape=survey(files), labels=lambda: labels, inputs=inputs),
        class_names=names,
        columns={} if client is None else {client: np.asarray(table.column(client).to_pylist())},
    )


def _bytes(cell: Any, row: int, folder: Path) -> bytes:
    if not isinstance(cell, dict) or not isinstance(cell.get("bytes"), bytes):
        raise SordinoError(
            f"{folder} has no bytes of the image in row {row + 1}, only a path perhaps; save it again with the images inside."
        )
    found: bytes = cell["bytes"]
    return found
