"""The command as a process: exit codes, one sentence for each mistake, and how to go on after Ctrl-C."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from typing import NoReturn

from sordino.cli.application import NO_COLOR, app
from sordino.core import SordinoError
from sordino.sentences import first_line, shown

REFUSED, STOPPED = 2, 130
"""Exit codes: after a mistake; after Ctrl-C, as typer has it."""


def main() -> None:
    """The command in `sys.argv`: a mistake gets one sentence and exit code 2; Ctrl-C says how to go on."""
    try:
        app(args=_colors_first(sys.argv[1:]))
    except SordinoError as error:
        _refuse(str(error))
    except (OSError, MemoryError, RuntimeError) as error:
        sentence = _blame_the_machine(error)
        if sentence is None:
            raise
        _refuse(sentence)
    except (KeyboardInterrupt, SystemExit) as stop:
        if isinstance(stop, SystemExit) and stop.code != STOPPED:
            raise
        sys.stderr.write(stopped_sentence(sys.argv[1:]))
        sys.exit(STOPPED)


def stopped_sentence(arguments: Sequence[str]) -> str:
    """What is kept when this command was stopped, and the command that goes on."""
    command = next((one for one in arguments if not one.startswith("-")), "")
    again = shlex.join(["sordino", *arguments])
    if command == "run":
        resumed = again if "--resume" in arguments else f"{again} --resume"
        return f"sordino: stopped; completed rounds and their ledger are kept. Go on with: {resumed}\n"
    if command == "sweep":
        return f"sordino: stopped; finished runs and completed rounds are kept. Go on with: {again}\n"
    return "sordino: stopped.\n"


def _colors_first(arguments: Sequence[str]) -> list[str]:
    """The option of the application itself, wherever it stands, before the command."""
    rest = [one for one in arguments if one != NO_COLOR]
    return rest if len(rest) == len(arguments) else [NO_COLOR, *rest]


def _refuse(sentence: str) -> NoReturn:
    sys.stderr.write(json.dumps({"error": sentence}) + "\n" if "--json" in sys.argv else f"sordino: {sentence}\n")
    sys.exit(REFUSED)


def _blame_the_machine(error: Exception) -> str | None:
    """A sentence for what the machine refused: a file, a folder, memory; None where it may be a mistake of ours."""
    if isinstance(error, OSError):
        where = shown(str(error.filename)) if error.filename else "A file or folder"
        return f"{where} cannot be used ({first_line(error)}); check the path and its permissions."
    if isinstance(error, MemoryError) or "can't allocate memory" in str(error):
        return "There is not enough memory for this; choose a smaller model, cohort or batch."
    return None
