"""Runs as tidy CSV: one row per seed, numbers as numbers, infinite as inf, nothing where a figure is not known."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from sordino.core import VIEWS
from sordino.files import to_json, write_whole
from sordino.report.comparison.entries import varying
from sordino.report.comparison.runs import PRIVACY_LEVEL, Run


def write_csv(runs: Sequence[Run], path: Path) -> None:
    """Every run, also those that no table puts on one axis: their units and neighbours are columns."""
    text = io.StringIO()
    rows = list(tidy_rows(runs))
    writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_whole(path, text.getvalue().encode())


def tidy_rows(runs: Sequence[Run]) -> Iterator[dict[str, Any]]:
    """One row per run, with a column for each setting in which runs differ."""
    varied = [key for key in (*varying([runs]), *PRIVACY_LEVEL[:2]) if key != "method.name"]
    for run in runs:
        yield {
            "folder": str(run.folder),
            "data": run.settings["data.source"],
            "method": run.method,
            "seed": run.seed,
            "unit": run.unit,
            "neighbours": run.neighbours,
            "delta": run.delta,
            **{f"epsilon_{view}": run.epsilon[view] for view in VIEWS},
            "accuracy": run.accuracy,
            "own_mix_accuracy": run.own_mix,
            "auroc": run.auroc,
            "rmse": run.rmse,
            "mae": run.mae,
            "seconds": run.seconds,
            "bytes_up": run.bytes_up,
            "bytes_down": run.bytes_down,
            **{key: _plain(run.settings.get(key)) for key in varied},
        }


def _plain(value: Any) -> Any:
    return to_json(value) if isinstance(value, list | dict | bool) else value
