"""The front in characters: accuracy over ε, a letter for each contestant."""

from __future__ import annotations

import math
import string
from collections.abc import Sequence

from sordino.report.comparison.entries import Entry

WIDTH, HEIGHT = 56, 10
"""Of the field of letters; with its axis it takes 66 columns."""


def draw_front(entries: Sequence[Entry], *, view: str, measure: str) -> str:
    """A plot with ε on a logarithmic axis, ∞ at its end; nothing where all ε are the same, or too many contestants to tell."""
    names = list(dict.fromkeys(entry.contestant for entry in entries))
    finite = sorted({entry.epsilon for entry in entries if 0 < entry.epsilon < math.inf})
    if len(finite) < 2 or finite[-1] / finite[0] < 1.05 or len(names) > len(string.ascii_lowercase):
        return ""
    letters = dict(zip(names, string.ascii_lowercase, strict=False))
    low, high = _range([entry.mean for entry in entries])
    field = [[" "] * WIDTH for _ in range(HEIGHT)]
    for entry in sorted(entries, key=lambda entry: entry.mean):
        row = round((high - entry.mean) / (high - low) * (HEIGHT - 1))
        column = _column(entry.epsilon, finite[0], finite[-1])
        field[row][column] = (
            letters[entry.contestant] if field[row][column] in (" ", letters[entry.contestant]) else "+"
        )
    return "\n".join(
        [*_framed(field, low, high), *_axis(finite, entries), f"{measure} over ε ({view} view); {_legend(letters)}"]
    )


def _range(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    return (low, high) if high > low else (low - 0.005, high + 0.005)


def _column(epsilon: float, least: float, most: float) -> int:
    """The last column is for ∞, and one before it stays free."""
    if math.isinf(epsilon):
        return WIDTH - 1
    share = math.log(max(epsilon, least) / least) / math.log(most / least)
    return 1 + round(share * (WIDTH - 5))


def _framed(field: Sequence[Sequence[str]], low: float, high: float) -> list[str]:
    labels = {0: f"{high:.1%}", len(field) - 1: f"{low:.1%}"}
    return [f"{labels.get(number, ''):>7} │{''.join(row).rstrip()}" for number, row in enumerate(field)]


def _axis(finite: Sequence[float], entries: Sequence[Entry]) -> list[str]:
    first, last = f"{finite[0]:.3g}", f"{finite[-1]:.3g}"
    end = "∞" if any(math.isinf(entry.epsilon) for entry in entries) else ""
    middle = last.rjust(WIDTH - 3 - len(first))
    return [f"{'':7} └{'─' * WIDTH}", f"{'':9}{first}{middle}{end:>3}"]


def _legend(letters: dict[str, str]) -> str:
    return ", ".join(f"{letter}: {name}" for name, letter in letters.items())
