"""Colours, marks and strokes that tell series apart, also for eyes that see fewer colours and on paper without any.

`tests/report/test_palette.py` measures how far apart they stay under the three kinds of colour blindness, and from the ground.
"""

from __future__ import annotations

LIGHT = ("#003faf", "#c2780a", "#00855d", "#a8377e", "#796000", "#47484d")
DARK = ("#6cb6ff", "#ff9a55", "#3ff7a2", "#e78fcf", "#e0cb3c", "#c3c7cc")
"""Colours of series on white and on nearly black, in the same order."""
GROUND = {"light": "#ffffff", "dark": "#16181d"}

DASHES = ("", "6 3", "2 3", "9 3 2 3")
"""Strokes for configurations of one contestant."""

SEQUENTIAL = {
    "light": ("#f1f3f6", "#d6e3f0", "#b3cfe6", "#8ab7da", "#609ccb", "#3c80b8", "#22649f", "#114983", "#082f5f"),
    "dark": ("#1d2026", "#1c2f44", "#1d4263", "#225682", "#2f6da1", "#4686bd", "#689fd2", "#93bbe3", "#c4daf2"),
}
"""From nothing to all, in lightness, so that it can be read without colour."""

SHAPES = ("circle", "square", "triangle", "diamond", "cross", "down")


def shape_path(shape: int, x: float, y: float, size: float) -> str:
    """The outline of a mark around a point; with `series_class` the first 36 numbers have marks of their own."""
    s = size
    outlines = {
        "circle": f"M{x - s:.1f} {y:.1f}a{s} {s} 0 1 0 {2 * s} 0a{s} {s} 0 1 0 {-2 * s} 0z",
        "square": f"M{x - 0.9 * s:.1f} {y - 0.9 * s:.1f}h{1.8 * s:.1f}v{1.8 * s:.1f}h{-1.8 * s:.1f}z",
        "triangle": f"M{x:.1f} {y - 1.2 * s:.1f}l{1.15 * s:.1f} {2 * s:.1f}h{-2.3 * s:.1f}z",
        "diamond": f"M{x:.1f} {y - 1.3 * s:.1f}l{1.3 * s:.1f} {1.3 * s:.1f}l{-1.3 * s:.1f} {1.3 * s:.1f}l{-1.3 * s:.1f} {-1.3 * s:.1f}z",
        "cross": _cross(x, y, s),
        "down": f"M{x:.1f} {y + 1.2 * s:.1f}l{1.15 * s:.1f} {-2 * s:.1f}h{-2.3 * s:.1f}z",
    }
    return outlines[SHAPES[(shape + shape // len(SHAPES)) % len(SHAPES)]]


def _cross(x: float, y: float, size: float) -> str:
    a, b = round(0.45 * size, 1), round(0.85 * size, 1)
    return f"M{x - a:.1f} {y - a - b:.1f}h{2 * a}v{b}h{b}v{2 * a}h{-b}v{b}h{-2 * a}v{-b}h{-b}v{-2 * a}h{b}z"


def series_class(number: int) -> str:
    """The class that gives a series its colour."""
    return f"s{number % len(LIGHT)}"


def theme_variables(theme: str) -> str:
    """Custom properties of a page in one theme: `--s0`, ... for series, `--q0`, ... for heat maps."""
    named = {"s": LIGHT if theme == "light" else DARK, "q": SEQUENTIAL[theme]}
    return "".join(
        f"--{letter}{number}:{colour};" for letter, colours in named.items() for number, colour in enumerate(colours)
    )


def class_rules() -> str:
    """Which class has which custom property."""
    series = "".join(f".s{number}{{--c:var(--s{number})}}" for number in range(len(LIGHT)))
    heat = "".join(f".q{number}{{fill:var(--q{number})}}" for number in range(9))
    return series + heat
