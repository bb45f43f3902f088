"""Pieces that sections are made of: a section, a figure with its legend and its table, tabs, notes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from sordino.report.drawing.elements import Markup, element, join, text
from sordino.report.drawing.frame import HALF, NARROW, WIDE, Grid, Series
from sordino.report.drawing.palette import series_class, shape_path

MOST_LISTED = 40
"""Names in a legend; beyond that a figure is read by hovering."""


class Drawing(Protocol):
    """A figure of `report/drawing`."""

    @property
    def legend(self) -> list[Series]: ...

    def svg(self, width: float) -> Markup: ...

    def grid(self) -> Grid: ...


def section(name: str, title: str, *parts: Markup, lead: str = "") -> Markup:
    """A part of the page with a heading that links can lead to."""
    intro = element("p", text(lead), class_="lead") if lead else Markup("")
    return element(
        "section",
        element("h2", text(title), id=f"{name}-title"),
        intro,
        *parts,
        id=name,
        aria_labelledby=f"{name}-title",
    )


def figure(drawing: Drawing, *, title: str, caption: str = "", half: bool = False) -> Markup:
    """A drawing at two widths, of which a page shows the one that fits, with its legend and its values as a table.

    One that takes `half` a row stands in a `group`, which has the legend for all of them.
    """
    widths = ((HALF if half else WIDE, "wide"), (NARROW, "narrow"))
    plots = [element("div", drawing.svg(width), class_=f"plot {name}") for width, name in widths]
    field = element(
        "div",
        *plots,
        class_="plots",
        tabindex="0",
        role="group",
        aria_roledescription="chart",
        aria_label=f"{title}. Arrow keys read its values.",
    )
    told = element("figcaption", element("strong", text(title)), text(f" {caption}" if caption else ""))
    values = details("Values as a table", grid_table(drawing.grid(), title))
    legend = Markup("") if half else _legend(drawing.legend)
    return element("figure", told, legend, field, values, class_="half" if half else "linked")


def group(drawings: Sequence[Drawing], figures: Sequence[Markup]) -> Markup:
    """Figures side by side under one legend."""
    every = {series.number: series for drawing in drawings for series in drawing.legend}
    return element("div", _legend(list(every.values())), element("div", *figures, class_="pair"), class_="linked")


def _legend(series: Sequence[Series]) -> Markup:
    if len(series) < 2 or len(series) > MOST_LISTED:
        return Markup("")
    buttons = [
        element(
            "button", swatch(one), text(one.name), type="button", class_="key", aria_pressed="true", data_s=one.number
        )
        for one in series
    ]
    return element("div", *buttons, class_="legend", role="group", aria_label="Shown in figures")


def swatch(series: Series) -> Markup:
    """The mark of a series as it stands in figures."""
    mark = element("path", class_="mark", d=shape_path(series.number, 8, 8, 5))
    return element(
        "svg",
        mark,
        class_=f"swatch {series_class(series.number)}",
        viewBox="0 0 16 16",
        width=16,
        height=16,
        aria_hidden="true",
    )


def grid_table(grid: Grid, name: str) -> Markup:
    head = element("tr", *(element("th", text(word), scope="col") for word in grid.head))
    rows = [
        element("tr", element("th", text(row[0]), scope="row"), *(element("td", text(cell)) for cell in row[1:]))
        for row in grid.rows
    ]
    return scrolled(element("table", element("thead", head), element("tbody", *rows), class_="plain"), name)


def scrolled(table: Markup, name: str) -> Markup:
    """A table that may be wider than a phone; who has no mouse can scroll it too."""
    return element("div", table, class_="scroll", tabindex="0", role="region", aria_label=name)


def details(summary: str, *content: Markup) -> Markup:
    return element("details", element("summary", text(summary)), *content)


def tabs(name: str, label: str, panels: Mapping[str, Markup]) -> Markup:
    """Panels of which one is shown at a time; without a script, and on paper, all of them."""
    if len(panels) == 1:
        return next(iter(panels.values()))
    buttons = [
        element(
            "button",
            text(word),
            type="button",
            role="tab",
            id=f"{name}-tab-{number}",
            aria_controls=f"{name}-{number}",
            aria_selected="true" if number == 0 else "false",
        )
        for number, word in enumerate(panels)
    ]
    shown = [
        element(
            "div", panel, role="tabpanel", id=f"{name}-{number}", aria_labelledby=f"{name}-tab-{number}", class_="panel"
        )
        for number, panel in enumerate(panels.values())
    ]
    return element(
        "div", element("div", *buttons, role="tablist", aria_label=label, class_="tabs"), *shown, class_="tabbed"
    )


def note(*sentences: str, kind: str = "note") -> Markup:
    """Something that a reader should know; nothing where there is none."""
    told = [element("p", text(sentence)) for sentence in sentences if sentence]
    return element("div", *told, class_=f"note {kind}") if told else Markup("")


def bullets(sentences: Sequence[str]) -> Markup:
    return element("ul", *(element("li", text(one)) for one in sentences)) if sentences else Markup("")


def cards(facts: Mapping[str, str]) -> Markup:
    """A few figures that are seen first."""
    pairs = [element("div", element("dt", text(name)), element("dd", text(value))) for name, value in facts.items()]
    return element("dl", *pairs, class_="cards")


def stacked(*parts: Markup) -> Markup:
    return element("div", join(*parts), class_="stacked")
