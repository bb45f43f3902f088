"""Clients: the ε of each, how well they fare in their own mix of labels, and who fares worst."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from sordino.core import VIEWS, View
from sordino.report.drawing.elements import Markup
from sordino.report.drawing.lines import Line, Lines
from sordino.report.drawing.ranges import Range, Ranges
from sordino.report.page.pieces import figure, section, tabs
from sordino.report.page.sections.labels import label_maps
from sordino.report.page.told import Configuration, Story

MOST_ROWS = 40
LEAD = "An average hides people. Here is what each client was promised, what each got of the model, and who holds what."


def clients(story: Story) -> Markup:
    parts = [_epsilon(story), _fairness(story), label_maps(story)]
    drawn = [part for part in parts if part]
    return section("clients", "Client by client", *drawn, lead=LEAD) if drawn else Markup("")


def _epsilon(story: Story) -> Markup:
    """ε of each client, from the smallest up, where clients differ or are listed at all."""
    panels = {f"{view} view": panel for view in VIEWS if (panel := _epsilon_panel(story, view))}
    return tabs("client-epsilon", "Whose view", panels) if panels else Markup("")


def _epsilon_panel(story: Story, view: View) -> Markup:
    lines = []
    for one in story.configurations:
        each = _each(one, view)
        if each:
            points = [(float(place), value) for place, value in enumerate(sorted(each), start=1)]
            lines.append(Line(series=one.series, name=one.name, points=points, dash=one.dash))
    if not lines:
        return Markup("")
    drawing = Lines(
        name=f"ε of each client in the {view} view, from the smallest up, {len(lines)} lines",
        lines=lines,
        x_name="clients, from the smallest ε up",
        x_word="client",
        y_name="ε",
        from_zero=True,
        height=260,
    )
    return figure(
        drawing,
        title=f"ε of each client, {view} view.",
        caption="Of the first seed. A flat line promises everybody the same.",
    )


def _each(one: Configuration, view: View) -> list[float]:
    found: Mapping[str, Any] = one.first.summary["epsilon"][view].get("per_client") or {}
    return [float(value) for value in found.values() if math.isfinite(float(value))]


def _fairness(story: Story) -> Markup:
    every = [row for one in story.configurations if (row := _range(one)) is not None]
    if not every:
        return Markup("")
    rows = every if len(every) <= MOST_ROWS else sorted(every, key=lambda row: -row.value)[:MOST_ROWS]
    cut = f" The best {MOST_ROWS} of {len(every)}." if len(every) > MOST_ROWS else ""
    drawing = Ranges(
        name=f"Own-mix accuracy of clients and of the worst tenth, {len(rows)} configurations",
        ranges=rows,
        x_name="accuracy in the client's own mix of labels",
        value_name="mean of clients",
        range_name="one deviation around",
        second_name="worst tenth",
    )
    caption = (
        "Mark: mean of clients; bar: one standard deviation between clients; open triangle: mean of the worst tenth. "
        f"Outside every ε.{cut}"
    )
    return figure(drawing, title="Fairness: clients in their own mix of labels.", caption=caption)


def _range(one: Configuration) -> Range | None:
    found = [told.own_clients for told in one.runs if told.own_clients]
    if not found:
        return None
    mean = statistics.mean(clients["mean"] for clients in found)
    deviation = _mean(found, "standard_deviation") or 0.0
    worst = _mean(found, "worst_tenth")
    late = [clients["newcomers"]["mean"] for clients in found if "newcomers" in clients]
    tip = [one.name, f"mean of clients {mean:.2%} ± {deviation:.2%}"]
    tip += [f"worst tenth {worst:.2%}"] if worst is not None else []
    tip += [f"clients that joined late {statistics.mean(late):.2%}"] if late else []
    return Range(
        series=one.series,
        name=one.name,
        value=mean,
        low=max(0.0, mean - deviation),
        high=min(1.0, mean + deviation),
        second=worst,
        tip="\n".join(tip),
    )


def _mean(found: Sequence[Mapping[str, Any]], name: str) -> float | None:
    values = [clients[name] for clients in found if name in clients]
    return statistics.mean(values) if values else None
