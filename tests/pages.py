"""Pages that are followed word by word: commands are run, snippets executed, and what a page shows must have been printed."""

import io
import re
import shlex
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from sordino.cli import main

ROOT = Path(__file__).resolve().parents[1]


def blocks(page: str) -> list[tuple[str, str]]:
    """Every fenced block of a page: what stands behind the fence, and the text."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(r"^```(.*)\n((?:.*\n)*?)^```$", text, flags=re.MULTILINE)


def done(command: str) -> tuple[int, str]:
    """A line of a page as a shell would do it: its exit code, and what it printed. `sordino` runs in this process."""
    words = shlex.split(command, comments=True)
    if words[0] != "sordino":
        program = sys.executable if words[0] == "python" else words[0]
        result = subprocess.run([program, *words[1:]], text=True, capture_output=True, check=False)
        return result.returncode, result.stdout + result.stderr
    printed, code = io.StringIO(), 0
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(printed), redirect_stderr(printed):
        patch.setattr(sys, "argv", words)
        try:
            main()
        except SystemExit as stop:
            code = int(stop.code or 0)
    return code, printed.getvalue()


def follow(kind: str, text: str, told: str, page: str) -> str:
    """Do what a block says, or check that what it shows was printed by the one before; returns what was printed."""
    if kind.startswith("bash"):
        found = [(line, *done(line)) for line in text.splitlines() if line.strip()]
        for line, code, printed in found:
            assert code == (2 if "refused" in kind else 0), f"{line}\n{printed}"
        return "".join(printed for _, _, printed in found)
    if kind == "python":
        printed = io.StringIO()
        with redirect_stdout(printed):
            exec(compile(text, page, "exec"), {"__name__": page})
        return printed.getvalue()
    if kind == "toml" and (name := re.match(r"# (\S+\.toml)\n", text)):
        Path(name[1]).write_text(text)
    elif kind == "" and told:
        for line in text.splitlines():
            assert line in told, f"{page} says {line!r}, but got\n{told}"
    return told


def walk(page: str, folder: Path) -> None:
    """Do everything that a page says, in this folder."""
    told = ""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("COLUMNS", "200")
        for kind, text in blocks(page):
            told = follow(kind, text, told, page)
