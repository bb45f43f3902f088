"""Predictions as rows that people read: on the terminal, as JSON, or in a CSV file."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from sordino.core import SordinoError
from sordino.files import write_whole
from sordino.predict.files import image_files, open_table
from sordino.predict.predictor import Predictor

SHOWN = 20
"""Rows that the terminal shows."""

Rows = list[dict[str, Any]]


def predictions(predictor: Predictor, file: Path, *, keep: tuple[str, ...] = ()) -> Rows:
    """One entry per row of the file: what tells it apart, and the likeliest class with the probability of each, or a number."""
    if predictor.target is not None:
        found = predictor.predict(file)
        names = _names(predictor, file, keep, len(found))
        return [{**name, "prediction": float(one)} for name, one in zip(names, found, strict=True)]
    chances = predictor.predict_proba(file)
    called = np.array(predictor.classes)[chances.argmax(1)]
    names = _names(predictor, file, keep, len(chances))
    return [
        {**name, "prediction": str(word), "probabilities": _by_class(predictor.classes, row)}
        for name, word, row in zip(names, called, chances, strict=True)
    ]


def _by_class(classes: Sequence[str], row: NDArray[np.float64]) -> dict[str, float]:
    return {name: float(chance) for name, chance in zip(classes, row, strict=True)}


def _names(predictor: Predictor, file: Path, keep: tuple[str, ...], count: int) -> list[dict[str, Any]]:
    """The row's number, the image's file, and the columns that are to be kept."""
    if predictor.preparation.is_table:
        table = open_table(file, predictor.preparation)
        kept = {name: table.cells(name).words.tolist() for name in keep}
        numbers = [int(number) + 1 for number in table.frame.index]
        return [{"row": row, **{name: kept[name][at] for name in keep}} for at, row in enumerate(numbers)]
    if keep:
        raise SordinoError(f"--keep takes columns of a table, but {file} has none; leave it out.")
    if predictor.preparation.kind == "image" and file.suffix not in (".npz", ".npy"):
        return [{"row": at + 1, "file": image.name} for at, image in enumerate(image_files(file))]
    return [{"row": at + 1} for at in range(count)]


def write_csv(rows: Rows, path: Path) -> None:
    """Every row as a line, each probability in a column of its own."""
    text = io.StringIO()
    flat = [_flat(row) for row in rows]
    writer = csv.DictWriter(text, list(flat[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(flat)
    write_whole(path, text.getvalue().encode())


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    told = {f"probability {name}": f"{chance:.6f}" for name, chance in row.get("probabilities", {}).items()}
    return {**{key: value for key, value in row.items() if key != "probabilities"}, **told}


def _told(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else escape(str(value))


def predictions_table(rows: Rows, out: Path | None) -> Table:
    """The first rows, and where the others are."""
    more = f"The first {SHOWN} of {len(rows)} rows; --out writes all. " if len(rows) > SHOWN else ""
    table = Table(
        title=f"Predictions for {len(rows)} rows",
        box=SIMPLE_HEAD,
        caption=f"{more}{f'All rows are in {escape(str(out))}.' if out else ''}",
    )
    for name in (key for key in rows[0] if key != "probabilities"):
        table.add_column(escape(name))
    for name in rows[0].get("probabilities", ()):
        table.add_column(escape(name), justify="right")
    for row in rows[:SHOWN]:
        told = [_told(value) for key, value in row.items() if key != "probabilities"]
        table.add_row(*told, *(f"{chance:.1%}" for chance in row.get("probabilities", {}).values()))
    return table
