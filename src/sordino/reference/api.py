"""The page of Python names: what `import sordino` gives, and what parts of one's own are written with."""

from __future__ import annotations

import inspect
import re

import sordino
from sordino import extend


def api_page(note: str) -> str:
    """Every public name with its signature and its own words."""
    found = ["# Python names", note, "Everything here stays where it is; other modules may move.", "## import sordino"]
    for name in sorted(sorted(set(sordino.__all__) - {"__version__"}), key=str.lower):
        found += _entry(f"sordino.{name}", getattr(sordino, name))
    found += [
        "## sordino.extend",
        "What parts of your own are written with; CONTRIBUTING.md in the repository has an example for each axis.",
    ]
    found += [f"- `{name}`: {_first_line(getattr(extend, name))}" for name in sorted(extend.__all__, key=str.lower)]
    return "\n\n".join(found[: -len(extend.__all__)]) + "\n\n" + "\n".join(found[-len(extend.__all__) :]) + "\n"


def _entry(name: str, value: object) -> list[str]:
    head = f"### {name}"
    words = inspect.cleandoc(getattr(value, "__doc__", None) or "").replace("<", "&lt;")
    signature = _signature(name, value)
    return [
        head,
        *([f"```python\n{signature}\n```"] if signature else []),
        *([f"```text\n{words}\n```"] if words else []),
    ]


def _signature(name: str, value: object) -> str:
    if not callable(value) or (isinstance(value, type) and issubclass(value, Exception)):
        return ""
    try:
        return re.sub(r" at 0x[0-9a-f]+", "", f"{name}{inspect.signature(value)}")
    except (TypeError, ValueError):
        return ""


def _first_line(value: object) -> str:
    kept = inspect.isclass(value) or inspect.isroutine(value)
    return (inspect.cleandoc(value.__doc__ or "").split("\n")[0] if kept else "a type") or "see its source"
