"""The frame of a figure: size, axes with ticks and words, and what screen readers are told."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from sordino.report.drawing.elements import Markup, element, join, short, text
from sordino.report.drawing.scales import Linear, Scale

WIDE, HALF, NARROW = 680, 500, 344
"""Widths at which a page draws figures, in CSS pixels: alone on its row, beside another, and on a phone."""
LEFT, RIGHT, TOP, BELOW = 54.0, 14.0, 12.0, 44.0


@dataclass(frozen=True, kw_only=True)
class Box:
    """The field inside a frame."""

    width: float
    height: float
    left: float = LEFT
    right: float = RIGHT
    top: float = TOP
    below: float = BELOW

    @property
    def x(self) -> tuple[float, float]:
        return self.left, self.width - self.right

    @property
    def y(self) -> tuple[float, float]:
        """From the bottom up."""
        return self.height - self.below, self.top

    @property
    def is_narrow(self) -> bool:
        return self.width < HALF


def svg(box: Box, name: str, *children: Markup, **facts: str | None) -> Markup:
    """A drawing with a name for who cannot see it."""
    size = f"0 0 {short(box.width)} {short(box.height)}"
    return element(
        "svg",
        *children,
        viewBox=size,
        width=box.width,
        height=box.height,
        role="img",
        aria_label=name,
        xmlns="http://www.w3.org/2000/svg",
        **facts,
    )


def axes(box: Box, x: Scale, y: Scale, *, x_name: str, y_name: str) -> Markup:
    """Lines across at the ticks of y, a base line with the ticks of x, and the names of both."""
    left, right = box.x
    bottom, top = box.y
    across = [element("line", class_="grid", x1=left, x2=right, y1=place, y2=place) for place, _ in y.ticks()]
    beside = [element("text", text(word), class_="tick end", x=left - 7, y=place + 4) for place, word in y.ticks()]
    under = [
        join(
            element("line", class_="base", x1=place, x2=place, y1=bottom, y2=bottom + 4),
            element("text", text(word), class_="tick mid", x=place, y=bottom + 17),
        )
        for place, word in x.ticks()
    ]
    return element(
        "g",
        *across,
        element("line", class_="base", x1=left, x2=right, y1=bottom, y2=bottom),
        *beside,
        *under,
        element("text", text(x_name), class_="name mid", x=(left + right) / 2, y=box.height - 6),
        element("text", text(y_name), class_="name", x=2.0, y=top - 14) if y_name else Markup(""),
        aria_hidden="true",
    )


def hover_facts(x: Linear, y: Linear, *, x_word: str, x_whole: bool, y_percent: bool) -> str:
    """What a page's script needs to say what lies under a pointer: how places become values."""
    facts = {"x": x.inverse(), "y": y.inverse(), "word": x_word, "whole": x_whole, "percent": y_percent}
    return json.dumps(facts, separators=(",", ":"))


@dataclass(frozen=True, kw_only=True)
class Series:
    """A name in a legend: with its colour, its mark and its stroke."""

    number: int
    name: str
    dash: int = 0


@dataclass(frozen=True, kw_only=True)
class Grid:
    """A figure's values as a table, for who cannot see it."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
