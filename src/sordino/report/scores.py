"""How a model does on public test rows, class by class, as the terminal shows it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

FIGURES = {
    "rmse": "RMSE",
    "mae": "MAE",
    "r2": "R²",
    "loss": "loss",
    "f1": "F1",
    "balanced_accuracy": "balanced accuracy",
    "auprc": "AUPRC",
    "calibration_error": "calibration error",
}


def scores_tables(summary: Mapping[str, Any]) -> list[Table]:
    """The figures beside accuracy, and the confusion matrix with the names of its classes; nothing where none were measured."""
    exact = ".3f" if summary.get("target") is None else ".4g"
    named = [f"{text} {summary[name]:{exact}}" for name, text in FIGURES.items() if summary.get(name) is not None]
    if not named:
        return []
    if summary.get("target") is not None:
        whose = "private rows, with noise" if summary.get("accuracy_charged") else "public test rows"
        return [_line(f"On {whose}: {', '.join(named)}. RMSE and MAE are in the unit of {summary['class_names'][0]}.")]
    caption = f"On public test rows: {', '.join(named)}. F1 is the mean over classes."
    counts = summary.get("confusion")
    if counts is None:
        return [_line(caption)]
    return [_confusion(counts, summary["class_names"], caption)]


def _line(sentence: str) -> Table:
    table = Table(show_header=False, box=None)
    table.add_row(escape(sentence))
    return table


def _confusion(counts: list[list[int]], names: list[str], caption: str) -> Table:
    table = Table(title="Rows of each class, and what they were called", caption=caption, box=SIMPLE_HEAD)
    table.add_column("class")
    for name in names:
        table.add_column(escape(name), justify="right")
    for heading in ("found", "right when called"):
        table.add_column(heading, justify="right")
    for number, (name, row) in enumerate(zip(names, counts, strict=True)):
        called = sum(other[number] for other in counts)
        table.add_row(escape(name), *map(str, row), _share(row[number], sum(row)), _share(row[number], called))
    return table


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "–"
