"""Accuracy over ε: a mark for each configuration, with its seeds and their spread."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sordino.report.drawing.elements import Markup, element
from sordino.report.drawing.frame import HALF, Box, Grid, Series, axes, svg
from sordino.report.drawing.palette import series_class, shape_path
from sordino.report.drawing.scales import Epsilon, Linear, padded


@dataclass(frozen=True, kw_only=True)
class Point:
    """A configuration: its ε, what its seeds reached, and what is said of it on hovering, line by line."""

    series: Series
    line: str
    """The same for points that are joined: they differ in nothing but ε."""
    epsilon: float
    figures: tuple[float, ...]
    mean: float
    spread: float
    on_front: bool
    tip: str


@dataclass(frozen=True, kw_only=True)
class Front:
    """The figure; `budget` draws a line at an ε that was asked about."""

    name: str
    points: Sequence[Point]
    measure: str
    view: str
    budget: float | None = None

    @property
    def legend(self) -> list[Series]:
        return list({point.series.number: point.series for point in self.points}.values())

    def svg(self, width: float) -> Markup:
        box = Box(width=width, height=300 if width < HALF else 360, top=26)
        epsilons = [point.epsilon for point in self.points]
        x = Epsilon(values=epsilons, start=box.x[0], end=box.x[1], most_ticks=5 if box.is_narrow else 8)
        shown = [figure for point in self.points for figure in (*point.figures, *_ends(point))]
        low, high = padded(shown, floor=0, ceiling=1)
        places = self._places(x)
        y = Linear(low=low, high=high, start=box.y[0], end=box.y[1], percent=True)
        return svg(
            box,
            self.name,
            axes(box, x, y, x_name=f"ε of the worst client, {self.view} view", y_name=self.measure),
            self._budget(box, x),
            *self._lines(places, y),
            *(_mark(point, places[point], y) for point in sorted(self.points, key=lambda point: point.on_front)),
        )

    def _budget(self, box: Box, x: Epsilon) -> Markup:
        if self.budget is None or math.isinf(self.budget):
            return Markup("")
        place = x.place(self.budget)
        return element("line", class_="budget", x1=place, x2=place, y1=box.y[0], y2=box.y[1])

    def _places(self, x: Epsilon) -> dict[Point, float]:
        """Where points stand across; those at the same ε step aside a little, so that none hides another."""
        together: dict[int, list[Point]] = {}
        for point in sorted(self.points, key=lambda point: point.series.number):
            together.setdefault(round(x.place(point.epsilon) / 4), []).append(point)
        return {
            point: x.place(point.epsilon) + (number - (len(points) - 1) / 2) * min(9.0, 56.0 / len(points))
            for points in together.values()
            for number, point in enumerate(points)
        }

    def _lines(self, places: Mapping[Point, float], y: Linear) -> list[Markup]:
        joined: dict[str, list[Point]] = {}
        for point in self.points:
            if math.isfinite(point.epsilon):
                joined.setdefault(f"{point.series.number} {point.line}", []).append(point)
        return [_joined(points, places, y) for points in joined.values() if len(points) > 1]

    def grid(self) -> Grid:
        rows = [
            [
                *point.tip.split("\n")[:1],
                _epsilon(point.epsilon),
                f"{point.mean:.2%}",
                _spread(point),
                str(len(point.figures)),
                "yes" if point.on_front else "",
            ]
            for point in self.points
        ]
        return Grid(
            head=["configuration", f"ε {self.view}", self.measure, "spread", "seeds", "on the front"], rows=rows
        )


def _ends(point: Point) -> tuple[float, ...]:
    return () if math.isnan(point.spread) else (point.mean - point.spread, point.mean + point.spread)


def _mark(point: Point, across: float, y: Linear) -> Markup:
    up = y.place(point.mean)
    ends = _ends(point)
    bar = f"M{across:.1f} {y.place(ends[0]):.1f}V{y.place(ends[1]):.1f}" if ends else ""
    seeds = "".join(shape_path(0, across, y.place(figure), 1.6) for figure in point.figures) if ends else ""
    return element(
        "g",
        element("path", class_="bar", d=bar) if bar else Markup(""),
        element("path", class_="seed", d=seeds) if seeds else Markup(""),
        element("path", class_="ring", d=shape_path(0, across, up, 9)) if point.on_front else Markup(""),
        element("path", class_="mark", d=shape_path(point.series.number, across, up, 5)),
        class_=f"point {series_class(point.series.number)}",
        data_s=point.series.number,
        data_at=f"{across:.1f},{up:.1f}",
        data_tip=point.tip,
    )


def _joined(points: Sequence[Point], places: Mapping[Point, float], y: Linear) -> Markup:
    ordered = sorted(points, key=lambda one: one.epsilon)
    corners = [f"{places[point]:.1f} {y.place(point.mean):.1f}" for point in ordered]
    series = points[0].series
    return element(
        "path", class_=f"thread {series_class(series.number)}", data_s=series.number, d="M" + "L".join(corners)
    )


def _epsilon(value: float) -> str:
    return "∞" if math.isinf(value) else f"{value:.4g}"


def _spread(point: Point) -> str:
    return "" if math.isnan(point.spread) else f"{point.spread:.2%}"
