"""All configurations on one table that can be sorted and searched."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from sordino.core import VIEWS
from sordino.report.drawing.elements import Markup, element, text
from sordino.report.page.pieces import scrolled, section, swatch
from sordino.report.page.told import Configuration, Story
from sordino.report.terminal import epsilon_text, mean_and_spread


@dataclass(frozen=True, kw_only=True)
class Cell:
    """What is shown, and the number that it is sorted by."""

    shown: str
    value: float | None


def configurations(story: Story) -> Markup:
    rows = [_row(one) for one in story.configurations]
    columns = _columns(story.configurations)
    used = [column for column in columns if any(columns[column][place].value is not None for place in range(len(rows)))]
    head = [_heading("configuration", kind="text"), *(_heading(name, kind="number") for name in used)]
    body = [
        element("tr", name, *(_cell(columns[column][place]) for column in used), data_s=one.series.number)
        for place, (one, name) in enumerate(zip(story.configurations, rows, strict=True))
    ]
    table = element(
        "table",
        element(
            "caption",
            text("Means over seeds; ± is one standard deviation. Choose a heading to sort by it."),
            class_="small",
        ),
        element("thead", element("tr", *head)),
        element("tbody", *body),
        class_="sortable",
    )
    search = element(
        "label",
        text("Search "),
        element("input", type="search", id="search", aria_controls="runs-table", placeholder="name or setting"),
        element("output", text(""), id="found", aria_live="polite"),
        class_="search",
    )
    return section(
        "runs", "Every configuration", search, element("div", scrolled(table, "Every configuration"), id="runs-table")
    )


def _heading(name: str, *, kind: str) -> Markup:
    button = element("button", text(name), element("span", class_="arrow", aria_hidden="true"), type="button")
    return element("th", button, scope="col", data_kind=kind, aria_sort="none")


def _row(one: Configuration) -> Markup:
    return element("th", swatch(one.series), text(one.name), scope="row")


def _cell(cell: Cell) -> Markup:
    value = None if cell.value is None else "inf" if math.isinf(cell.value) else f"{cell.value:.6g}"
    return element("td", text(cell.shown), data_v=value)


def _columns(every: Sequence[Configuration]) -> dict[str, list[Cell]]:
    epsilon = {
        f"ε {view}": [_epsilon(max(told.run.epsilon[view] for told in one.runs)) for one in every] for view in VIEWS
    }
    return {
        **epsilon,
        "accuracy": [_share([told.run.accuracy for told in one.runs]) for one in every],
        "own-mix accuracy": [_share([_own(told.own_clients, "mean") for told in one.runs]) for one in every],
        "worst tenth": [_share([_own(told.own_clients, "worst_tenth") for told in one.runs]) for one in every],
        "AUROC": [_number([told.run.auroc for told in one.runs], 3) for one in every],
        "RMSE": [_number([told.run.rmse for told in one.runs], 3) for one in every],
        "MAE": [_number([told.run.mae for told in one.runs], 3) for one in every],
        "seeds": [Cell(shown=str(len(one.runs)), value=len(one.runs)) for one in every],
        "seconds": [_number([told.run.seconds for told in one.runs], 1) for one in every],
        "MB": [_number([_megabytes(told.run.bytes_up, told.run.bytes_down) for told in one.runs], 2) for one in every],
    }


def _epsilon(value: float) -> Cell:
    return Cell(shown=epsilon_text(value), value=value)


def _own(clients: object, name: str) -> float | None:
    return clients.get(name) if isinstance(clients, dict) else None


def _share(values: Sequence[float | None]) -> Cell:
    known = [value for value in values if value is not None]
    if not known:
        return Cell(shown="", value=None)
    spread = statistics.stdev(known) if len(known) > 1 else math.nan
    return Cell(shown=mean_and_spread(statistics.mean(known), spread), value=statistics.mean(known))


def _number(values: Sequence[float | None], digits: int) -> Cell:
    known = [value for value in values if value is not None]
    return (
        Cell(shown=f"{statistics.mean(known):.{digits}f}", value=statistics.mean(known))
        if known
        else Cell(shown="", value=None)
    )


def _megabytes(up: int | None, down: int | None) -> float | None:
    return None if up is None else (up + (down or 0)) / 1e6
