"""Accuracy of models under noise on their parameters, as a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sordino.report.drawing.frame import Series
from sordino.report.drawing.lines import Line, Lines
from sordino.report.page.pieces import figure, section
from sordino.report.page.writing import write_page

TITLE = "Robustness to noise on parameters"


def write_robustness(found: Sequence[Mapping[str, Any]], path: Path) -> None:
    """One line per model over the standard deviation of the noise, with the spread over draws."""
    lines = [_line(number, one) for number, one in enumerate(found)]
    drawing = Lines(
        name="Accuracy over the noise on every parameter",
        lines=lines,
        x_name="standard deviation of the noise on every parameter",
        x_word="noise",
        y_name="accuracy",
        percent=True,
        whole=False,
        marked=True,
    )
    caption = "Mean over draws of the noise, shaded by one standard deviation."
    write_page(
        TITLE, {}, [section("noise", TITLE, figure(drawing, title="Accuracy under noise.", caption=caption))], path
    )


def _line(number: int, one: Mapping[str, Any]) -> Line:
    rows = one["robust_accuracy"]
    name = str(one["folder"])
    return Line(
        series=Series(number=number, name=name),
        name=name,
        points=[(row["noise"], row["accuracy"]) for row in rows],
        band=[(row["accuracy"] - float(row["spread"]), row["accuracy"] + float(row["spread"])) for row in rows],
    )
