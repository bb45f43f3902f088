"""One row per name: a mark at a value, a bar over a range, and a second mark, such as that of those who fare worst."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sordino.report.drawing.elements import Markup, element, text
from sordino.report.drawing.frame import HALF, Box, Grid, Series, svg
from sordino.report.drawing.palette import series_class, shape_path
from sordino.report.drawing.scales import Linear, padded

ROW, NARROW_ROW = 30.0, 44.0


@dataclass(frozen=True, kw_only=True)
class Range:
    """A name, its value, a range, and a second value."""

    series: Series
    name: str
    value: float
    low: float
    high: float
    second: float | None
    tip: str


@dataclass(frozen=True, kw_only=True)
class Ranges:
    """The figure. Names stand beside their rows, or above them where it is narrow."""

    name: str
    ranges: Sequence[Range]
    x_name: str
    value_name: str
    range_name: str
    second_name: str = ""
    percent: bool = True

    @property
    def legend(self) -> list[Series]:
        return []

    def svg(self, width: float) -> Markup:
        narrow = width < HALF
        row = NARROW_ROW if narrow else ROW
        beside = 12.0 if narrow else min(300.0, 24 + 6.6 * max(len(one.name) for one in self.ranges))
        box = Box(width=width, height=row * len(self.ranges) + 56, left=beside, right=16)
        ends = [end for one in self.ranges for end in (one.low, one.high, one.value, *_seconds(one))]
        low, high = padded(ends, floor=0, ceiling=1 if self.percent else None)
        x = Linear(
            low=low,
            high=high,
            start=box.x[0] + 8,
            end=box.x[1] - 8,
            percent=self.percent,
            most_ticks=4 if narrow else 7,
        )
        rows = [
            _row(one, x, box, box.top + row * (number + (0.72 if narrow else 0.5)))
            for number, one in enumerate(self.ranges)
        ]
        return svg(box, self.name, self._frame(box, x), *rows)

    def _frame(self, box: Box, x: Linear) -> Markup:
        bottom = box.y[0]
        lines = [element("line", class_="grid", x1=place, x2=place, y1=box.top, y2=bottom) for place, _ in x.ticks()]
        words = [element("text", text(word), class_="tick mid", x=place, y=bottom + 16) for place, word in x.ticks()]
        name = element("text", text(self.x_name), class_="name mid", x=sum(box.x) / 2, y=box.height - 6)
        return element("g", *lines, *words, name, aria_hidden="true")

    def grid(self) -> Grid:
        head = ["configuration", self.value_name, self.range_name, *([self.second_name] if self.second_name else [])]
        rows = [
            [one.name, self._cell(one.value), f"{self._cell(one.low)} to {self._cell(one.high)}"]
            + ([self._cell(one.second)] if self.second_name else [])
            for one in self.ranges
        ]
        return Grid(head=head, rows=rows)

    def _cell(self, value: float | None) -> str:
        return "" if value is None else f"{value:.2%}" if self.percent else f"{value:.4g}"


def _seconds(one: Range) -> tuple[float, ...]:
    return () if one.second is None else (one.second,)


def _row(one: Range, x: Linear, box: Box, y: float) -> Markup:
    narrow = box.is_narrow
    label = element(
        "text",
        text(_cut(one.name, 46)),
        class_="label" if narrow else "label end",
        x=box.left + 2 if narrow else box.left - 8,
        y=y - 13 if narrow else y + 4,
    )
    second = (
        Markup("")
        if one.second is None
        else element("path", class_="hollow", d=shape_path(2, x.place(one.second), y, 4.5))
    )
    return element(
        "g",
        label,
        element("path", class_="bar", d=f"M{x.place(one.low):.1f} {y:.1f}H{x.place(one.high):.1f}"),
        second,
        element("path", class_="mark", d=shape_path(one.series.number, x.place(one.value), y, 5)),
        class_=f"point {series_class(one.series.number)}",
        data_s=one.series.number,
        data_at=f"{x.place(one.value):.1f},{y:.1f}",
        data_tip=one.tip,
    )


def _cut(name: str, most: int) -> str:
    return name if len(name) <= most else f"{name[: most - 1]}…"
