"""Round by round: how accuracy grows, and how the budget is used up."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from sordino.core import View
from sordino.report.drawing.elements import Markup
from sordino.report.drawing.lines import Line, Lines
from sordino.report.page.pieces import figure, group, section
from sordino.report.page.told import Configuration, Story, Told

Reading = Callable[[Told, Mapping[str, Any]], float | None]
LEAD = "Lines are means over seeds, and shaded from the lowest seed to the highest."


def training(story: Story) -> Markup:
    shown: list[tuple[Lines, Markup]] = [
        *_accuracy(story, "accuracy", "Accuracy of the shared model", lambda told, row: row.get("accuracy")),
        *_accuracy(story, "own-mix accuracy", "Clients in their own mix of labels", _own_mix),
        *(one for view in story.contests for one in _burn_down(story, view)),
    ]
    if not shown:
        return Markup("")
    drawn = group([drawing for drawing, _ in shown], [one for _, one in shown])
    return section("training", "Round by round", drawn, lead=LEAD)


def _own_mix(_: Told, row: Mapping[str, Any]) -> float | None:
    clients = row.get("non_private_clients")
    return clients["mean"] if clients else None


def _accuracy(story: Story, y_name: str, title: str, read: Reading) -> Iterator[tuple[Lines, Markup]]:
    lines = [line for one in story.configurations if (line := _line(one, read)) is not None]
    if not any(len(line.points) > 1 for line in lines):
        return
    outside = "Outside every ε." if read is _own_mix else ""
    name = f"{title} over rounds, {len(lines)} lines"
    drawing = Lines(name=name, lines=lines, x_name="round", x_word="round", y_name=y_name, percent=True)
    yield drawing, figure(drawing, title=f"{title}.", caption=outside, half=True)


def _burn_down(story: Story, view: View) -> Iterator[tuple[Lines, Markup]]:
    """What is left of each budget that was for this view."""

    def left(told: Told, row: Mapping[str, Any]) -> float | None:
        if told.summary["view"] != view or "epsilon" not in row:
            return None
        budget, spent = budget_of(told), float(row["epsilon"])
        return None if budget is None or math.isinf(spent) else max(0.0, budget - spent)

    lines = []
    for one in story.configurations:
        line = _line(one, left)
        budget = budget_of(one.first)
        if line is not None and budget is not None:
            lines.append(
                Line(
                    series=line.series,
                    name=line.name,
                    points=[(0, budget), *line.points],
                    band=[(budget, budget), *line.band] if line.band else (),
                    dash=line.dash,
                )
            )
    if not lines:
        return
    name = f"ε that is left over rounds, {view} view, {len(lines)} lines"
    drawing = Lines(name=name, lines=lines, x_name="round", x_word="round", y_name="ε left", from_zero=True)
    caption = "Of the budget that was asked for, or of what the run spent in all where none was."
    yield drawing, figure(drawing, title=f"The budget burning down, {view} view.", caption=caption, half=True)


def budget_of(told: Told) -> float | None:
    """The ε that was asked for, or else all that was spent; None where that is infinite."""
    view = told.summary["view"]
    spent = float(told.summary["epsilon"][view]["epsilon"])
    asked = told.run.settings.get("privacy.epsilon")
    budget = max(float(asked), spent) if isinstance(asked, int | float) else spent
    return budget if math.isfinite(budget) else None


def _line(one: Configuration, read: Reading) -> Line | None:
    """The mean over those seeds that were looked at in a round, and their range."""
    by_round: dict[int, list[float]] = {}
    for told in one.runs:
        for row in told.metrics:
            value = read(told, row)
            if value is not None and math.isfinite(value):
                by_round.setdefault(row["round"] + 1, []).append(value)
    if not by_round:
        return None
    points = [(float(number), statistics.mean(values)) for number, values in sorted(by_round.items())]
    several = any(len(values) > 1 for values in by_round.values())
    band: Sequence[tuple[float, float]] = (
        [(min(values), max(values)) for _, values in sorted(by_round.items())] if several else ()
    )
    return Line(series=one.series, name=one.name, points=points, band=band, dash=one.dash)
