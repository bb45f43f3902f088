"""Lines over rounds, clients or ranks; a page's script reads the values under a pointer off the places."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sordino.report.drawing.elements import Markup, element
from sordino.report.drawing.frame import HALF, Box, Grid, Series, axes, hover_facts, svg
from sordino.report.drawing.palette import DASHES, series_class
from sordino.report.drawing.scales import Linear, padded

MOST_POINTS = 60
"""Of one line; more would not be seen."""


FEW_BANDS = 8
"""Beyond so many lines, a band is shown while its line is pointed at."""


@dataclass(frozen=True, kw_only=True)
class Line:
    """A named line; `band` is the lowest and highest value at each x, such as those of seeds."""

    series: Series
    name: str
    points: Sequence[tuple[float, float]]
    band: Sequence[tuple[float, float]] = ()
    dash: int = 0


@dataclass(frozen=True, kw_only=True)
class Lines:
    """The figure. `x_word` stands before x on hovering, as in "round 12"; `marked` puts a dot at each point."""

    name: str
    lines: Sequence[Line]
    x_name: str
    x_word: str
    y_name: str
    percent: bool = False
    whole: bool = True
    """Whether x is counted, such as rounds."""
    from_zero: bool = False
    marked: bool = False
    height: float = 300

    @property
    def legend(self) -> list[Series]:
        return list({line.series.number: line.series for line in self.lines}.values())

    def svg(self, width: float) -> Markup:
        box = Box(width=width, height=250 if width < HALF else self.height, top=26)
        x, y = self._scales(box)
        facts = hover_facts(x, y, x_word=self.x_word, x_whole=self.whole, y_percent=self.percent)
        drawn = [_line(_thinned(line), x, y, marked=self.marked) for line in self.lines]
        many = "many" if len(self.lines) > FEW_BANDS else None
        frame = axes(box, x, y, x_name=self.x_name, y_name=self.y_name)
        return svg(box, self.name, frame, *drawn, data_lines=facts, class_=many)

    def _scales(self, box: Box) -> tuple[Linear, Linear]:
        across = [x for line in self.lines for x, _ in line.points]
        up = [value for line in self.lines for _, value in line.points]
        up += [end for line in self.lines for ends in line.band for end in ends]
        low, high = padded(up, floor=0 if min(up) >= 0 else None, ceiling=1 if self.percent else None)
        low = min(0.0, low) if self.from_zero else low
        ends = (min(across), max(across)) if max(across) > min(across) else (min(across) - 0.5, max(across) + 0.5)
        most = 5 if box.is_narrow else 9
        x = Linear(low=ends[0], high=ends[1], start=box.x[0], end=box.x[1], whole=self.whole, most_ticks=most)
        return x, Linear(low=low, high=high, start=box.y[0], end=box.y[1], percent=self.percent)

    def grid(self) -> Grid:
        """One row per x, a column for each line."""
        columns = [dict(_thinned(line).points) for line in self.lines]
        every = sorted({x for column in columns for x in column})
        rows = [[f"{x:g}", *(self._cell(column.get(x)) for column in columns)] for x in every]
        return Grid(head=[self.x_name, *(line.name for line in self.lines)], rows=rows)

    def _cell(self, value: float | None) -> str:
        return "" if value is None else f"{value:.2%}" if self.percent else f"{value:.4g}"


def _thinned(line: Line) -> Line:
    count = len(line.points)
    if count <= MOST_POINTS:
        return line
    kept = sorted({round(place * (count - 1) / (MOST_POINTS - 1)) for place in range(MOST_POINTS)})
    band = [line.band[place] for place in kept] if line.band else ()
    return Line(
        series=line.series, name=line.name, points=[line.points[place] for place in kept], band=band, dash=line.dash
    )


def _line(line: Line, x: Linear, y: Linear, *, marked: bool) -> Markup:
    places = [(x.place(across), y.place(up)) for across, up in line.points]
    told = "M" + "L".join(f"{across:.1f} {up:.1f}" for across, up in places)
    return element(
        "g",
        _band(line, x, y),
        element("path", class_="line", d=told, stroke_dasharray=DASHES[line.dash % len(DASHES)] or None),
        element("path", class_="dot", d="".join(_dot(across, up) for across, up in places))
        if marked or len(places) == 1
        else Markup(""),
        class_=f"lined {series_class(line.series.number)}",
        data_s=line.series.number,
        data_name=line.name,
    )


def _dot(x: float, y: float) -> str:
    return f"M{x - 3:.1f} {y:.1f}a3 3 0 1 0 6 0a3 3 0 1 0 -6 0z"


def _band(line: Line, x: Linear, y: Linear) -> Markup:
    if not line.band:
        return Markup("")
    across = [x.place(place) for place, _ in line.points]
    lower = [f"{place:.1f} {y.place(low):.1f}" for place, (low, _) in zip(across, line.band, strict=True)]
    upper = [f"{place:.1f} {y.place(high):.1f}" for place, (_, high) in zip(across, line.band, strict=True)]
    return element("path", class_="band", d="M" + "L".join([*lower, *reversed(upper)]) + "z")
