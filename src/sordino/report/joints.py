"""Long names in narrow tables: they break at their joints, never inside a word."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.text import Text

PIECES = re.compile(r"(?:\d+(?:\.\d+)?(?:e[+-]?\d+)?|[^\s._=,/:-])*[\s._=,/:-]*")
"""A word or a number, and the signs behind it."""
WORDS = re.compile(r"\S+\s*")


class Jointed:
    """Text for a cell. A line that is too long is broken after a space; a word that is too long, after a dot, underscore, dash, comma,
    colon, slash or equals sign.

    Example:
        >>> Console(width=14).print(Jointed(("privacy.participation_cap=10", "")))
        privacy.
        participation_
        cap=10
    """

    def __init__(self, *lines: tuple[str, str]) -> None:
        """Lines, each with its style."""
        self._lines = lines

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        pieces = [piece for line, _ in self._lines for piece in PIECES.findall(line)]
        least, most = max(map(_width, pieces), default=0), max((_width(line) for line, _ in self._lines), default=0)
        return Measurement(least, most).with_maximum(options.max_width)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for line, style in self._lines:
            for part in _parts(line, options.max_width):
                yield Text(part, style=style, overflow="fold")


def _parts(line: str, width: int) -> Iterator[str]:
    part = ""
    for word in WORDS.findall(line):
        for piece in [word] if _width(word) <= width else PIECES.findall(word):
            if part and _width(part + piece) > width:
                yield part.rstrip()
                part = ""
            part += piece
    yield part.rstrip()


def _width(text: str) -> int:
    return Text(text.rstrip()).cell_len
