"""Which functions of the package a command calls, in the order of their first calls.

`python tests/walk.py run examples/quickstart.toml --out runs/walk` prints them; docs/design.md walks through the same files.
"""

from __future__ import annotations

import inspect
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import sordino

ROOT = f"{Path(sordino.__file__).parent}/"


def walked(work: Callable[[], object]) -> list[tuple[str, str]]:
    """The file and the name of every function that `work` calls, on all of its threads; bodies of modules and classes do not count."""
    found: dict[tuple[str, str], None] = {}

    def note(frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(ROOT) and code.co_flags & inspect.CO_OPTIMIZED:
            found.setdefault((code.co_filename.removeprefix(ROOT), code.co_qualname))

    before = sys.getprofile()
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
        threading.setprofile(None)
    return list(found)


def command() -> None:
    """The command in `sys.argv`, as somebody at a terminal gives it."""
    from sordino.cli import main

    try:
        main()
    except SystemExit as stop:
        if stop.code:
            raise


if __name__ == "__main__":
    for file, function in walked(command):
        print(f"{file:36} {function}")
