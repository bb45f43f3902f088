"""What a command has found, as JSON or as tables."""

from __future__ import annotations

import sys
from typing import Any


def show_value(value: Any, as_json: bool, draw: Any) -> None:
    """Print `value` as JSON, or what `draw()` makes of it: something rich can print, or a list of such things."""
    if as_json:
        from sordino.files import to_json

        sys.stdout.write(to_json(value, indent=2) + "\n")
        return
    from rich.console import Console

    drawn = draw()
    for item in drawn if isinstance(drawn, list) else [drawn]:
        Console(emoji=False).print(item)
