"""The reference as pages of the documentation: `python -m sordino.reference.pages DIR` writes them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import groupby
from pathlib import Path

from sordino.files import write_whole
from sordino.reference.api import api_page
from sordino.reference.described import Setting
from sordino.reference.notebooks import notebooks
from sordino.reference.parts import Described, parts, sections

NOTE = "<!-- Written by `make reference` from the code; change the docstrings there. -->"


def settings_page() -> str:
    """Every section of an experiment file, and every setting in it."""
    found = [
        "# Settings of an experiment file",
        NOTE,
        "Lengths are in rows, times in seconds, sizes in bytes, unless a line says otherwise.",
    ]
    for one in sections():
        found += [
            f"## {f'[{one.section}]' if one.section else 'Top of the file'}",
            _prose(one.text),
            _table(one.settings),
        ]
    return "\n\n".join(found) + "\n"


def parts_page() -> str:
    """Every method, model, start, tuning, mechanism and partitioner with its settings."""
    found = ["# Parts and their settings", NOTE, "`sordino methods NAME` prints the same."]
    for axis, members in groupby(parts(), key=lambda one: one.axis):
        found.append(f"## {axis.capitalize()}s")
        for one in members:
            found += [f"### {one.name}", _prose(one.text), f"```\n{one.example}\n```", _table(one.settings)]
    return "\n\n".join(part for part in found if part) + "\n"


def _prose(text: str) -> str:
    """A docstring as Markdown: its example blocks are indented, which makes them code."""
    return text.replace("<", "&lt;")


def _table(settings: list[Setting]) -> str:
    if not settings:
        return "It has no settings."
    rows = [
        f"| `{one.name}` | {_cell(one.type)} | {_cell(_code(one.default))} | {_cell(one.meaning)} |" for one in settings
    ]
    return "\n".join(["| setting | type | default | meaning |", "|---|---|---|---|", *rows])


def _code(default: str) -> str:
    return default if default in ("none", "needed", "its own") else f"`{default}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def names_page() -> str:
    """What `import sordino` gives."""
    return api_page(NOTE)


PAGES: dict[str, Callable[[], str]] = {"settings.md": settings_page, "parts.md": parts_page, "api.md": names_page}


def described_lines(one: Described) -> list[str]:
    """A part as plain lines, for a terminal."""
    head = [f"{one.axis} {one.name}, in [{one.section}]", "", one.text, "", f"  {one.example}", ""]
    rows = [
        f"  {setting.name}: {setting.type}; default {setting.default}"
        + (f". {setting.meaning}" if setting.meaning else "")
        for setting in one.settings
    ]
    return [*head, *(rows or ["  It has no settings."])]


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, page in PAGES.items():
        write_whole(folder / name, page().encode())
    beside = folder.parent / "notebooks"
    beside.mkdir(exist_ok=True)
    for name, text in notebooks(folder.parent).items():
        write_whole(beside / name, text.encode())


if __name__ == "__main__":
    main()
