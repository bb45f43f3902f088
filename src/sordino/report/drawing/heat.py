"""Heat maps: one path for each level, so that thousands of cells stay small."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass

from sordino.report.drawing.elements import Markup, element, text
from sordino.report.drawing.frame import Box, Grid, Series, svg

LEVELS = 9


@dataclass(frozen=True, kw_only=True)
class HeatMap:
    """Values by row and column."""

    name: str
    values: Sequence[Sequence[float]]
    row_names: Sequence[str]
    column_names: Sequence[str]
    rows_are: str
    columns_are: str
    percent: bool = False
    ends: tuple[float, float] | None = None
    """The values of the lightest and the strongest colour; else from 0 to the largest, by the root, which keeps small ones visible."""

    @property
    def legend(self) -> list[Series]:
        return []

    def svg(self, width: float) -> Markup:
        rows, columns = len(self.values), len(self.values[0])
        left = 22 + 6.4 * min(14, max(map(len, self.row_names)))
        cell = (width - left - 10) / columns
        tall = min(26.0, max(9.0, cell, 150.0 / rows))
        box = Box(width=width, height=rows * tall + 74, left=left, right=10, top=8, below=66)
        facts = {
            "at": [round(left, 1), box.top, round(cell, 3), round(tall, 3)],
            "rows": [f"{self.rows_are} {name}" for name in self.row_names],
            "columns": [f"{self.columns_are} {name}" for name in self.column_names],
            "values": [[self._number(value) for value in row] for row in self.values],
            "percent": self.percent,
        }
        return svg(
            box,
            self.name,
            element("g", *self._cells(left, box.top, cell, tall)),
            self._words(box, cell, tall),
            self._key(box),
            data_heat=json.dumps(facts, separators=(",", ":"), ensure_ascii=False),
        )

    def _number(self, value: float) -> float | None:
        return None if math.isnan(value) else round(value, 3) if abs(value) < 10 else round(value)

    @property
    def _ends(self) -> tuple[float, float]:
        largest = max((value for row in self.values for value in row if not math.isnan(value)), default=0.0)
        return self.ends or (0.0, largest or 1.0)

    def _level(self, value: float) -> int:
        low, high = self._ends
        share = max(0.0, (value - low) / (high - low or 1.0))
        share = share if self.ends else math.sqrt(share)
        return min(LEVELS - 1, max(0, round(share * (LEVELS - 1))))

    def _cells(self, left: float, top: float, cell: float, tall: float) -> list[Markup]:
        gap = 1.0 if cell > 6 else 0.0
        paths: dict[int, list[str]] = {}
        for number, row in enumerate(self.values):
            for place, value in enumerate(row):
                if not math.isnan(value):
                    corner = f"M{left + place * cell:.1f} {top + number * tall:.1f}"
                    paths.setdefault(self._level(value), []).append(
                        f"{corner}h{cell - gap:.1f}v{tall - 1:.1f}h{gap - cell:.1f}z"
                    )
        return [element("path", class_=f"q{level}", d="".join(parts)) for level, parts in sorted(paths.items())]

    def _words(self, box: Box, cell: float, tall: float) -> Markup:
        beside = [
            element("text", text(name[:14]), class_="tick end", x=box.left - 6, y=box.top + (number + 0.5) * tall + 4)
            for number, name in enumerate(self.row_names)
            if tall >= 11 or number % math.ceil(11 / tall) == 0
        ]
        width = 8 + 6.2 * min(12, max(map(len, self.column_names)))
        every = math.ceil(width / cell)
        under = [
            element("text", text(name[:12]), class_="tick mid", x=box.left + (number + 0.5) * cell, y=box.y[0] + 15)
            for number, name in enumerate(self.column_names)
            if number % every == 0
        ]
        names = f"{self.columns_are} across, {self.rows_are} down"
        return element(
            "g",
            *beside,
            *under,
            element("text", text(names), class_="name", x=box.left, y=box.height - 22),
            aria_hidden="true",
        )

    def _key(self, box: Box) -> Markup:
        y = box.height - 12
        boxes = [
            element("path", class_=f"q{level}", d=f"M{box.left + 14 * level:.1f} {y:.1f}h14v9h-14z")
            for level in range(LEVELS)
        ]
        words = " to ".join(self._cell(end) for end in self._ends)
        return element(
            "g",
            *boxes,
            element("text", text(words), class_="tick", x=box.left + 14 * LEVELS + 6, y=y + 9),
            aria_hidden="true",
        )

    def _cell(self, value: float) -> str:
        return f"{100 * value:.0f} %" if self.percent else f"{value:.3g}"

    def grid(self) -> Grid:
        rows = [
            [name, *(self._cell(value) for value in row)] for name, row in zip(self.row_names, self.values, strict=True)
        ]
        return Grid(head=[self.rows_are, *(f"{self.columns_are} {name}" for name in self.column_names)], rows=rows)
