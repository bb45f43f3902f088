"""Pages that are followed word by word: commands are run, snippets executed, and what a page shows must have been printed."""

import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from rich.cells import cell_len

from sordino.cli import main
from tests.page_cuts import CUT, NAMES, NOT_RUN, WHOLE_ONLY

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted(
    str(page.relative_to(ROOT))
    for page in (
        *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "torture/README.md")),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "examples").rglob("*.md"),
    )
)
"""Every page that may tell somebody to type something."""
WHOLE = bool(os.environ.get("SORDINO_WHOLE_PAGES"))
"""Whether commands are run as they stand on their page; else long ones are cut, and those that need a server are left out."""
FENCE = re.compile(r"^```(.*)\n((?:.*\n)*?)^```$", flags=re.MULTILINE)
COMMAND = re.compile(r"(?:\w+=\S+ )*(?:sordino|python3?|pytest|pip|make|git|cd|cp|rm|ssh-keygen|\.) \S")
"""How a line begins that a shell is to be given."""


def blocks(page: str) -> list[tuple[str, str]]:
    """Every fenced block of a page: what stands behind the fence, and the text."""
    return FENCE.findall((ROOT / page).read_text(encoding="utf-8"))


def commands(page: str) -> list[str]:
    """Everything on a page that can be typed: lines of blocks, and spans of code. `sordino NAME` alone is a name, and `...` a gap."""
    text = (ROOT / page).read_text(encoding="utf-8")
    kept = [block for kind, block in FENCE.findall(text) if kind not in ("python", "toml", "text")]
    lines = [line for block in kept for line in block.replace("\\\n", " ").splitlines()]
    spans = [span for span in re.findall(r"`([^`]+)`", FENCE.sub("", text)) if not re.fullmatch(r"sordino \S+", span)]
    parts = [part for line in (*lines, *spans) for part in re.sub(r"\s+#.*", "", line).split("; ")]
    found = (" ".join(part.split()) for part in parts if COMMAND.match(part))
    return list(dict.fromkeys(command for command in found if not re.search(r"\.\.\. |…", command + " ")))


def done(command: str) -> tuple[int, str]:
    """A line of a page as a shell would do it: its exit code, and what it printed. `sordino` runs in this process."""
    words = shlex.split(command, comments=True)
    if words[0] == "cd":
        os.chdir(words[1])
        return 0, ""
    if words[0] != "sordino":
        program = {"python": [sys.executable], "pytest": [sys.executable, "-m", "pytest"]}.get(words[0], [words[0]])
        result = subprocess.run([*program, *words[1:]], text=True, capture_output=True, check=False)
        return result.returncode, result.stdout + result.stderr
    printed, code = io.StringIO(), 0
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(printed), redirect_stderr(printed):
        patch.setattr(sys, "argv", words)
        try:
            main()
        except SystemExit as stop:
            code = int(stop.code or 0)
    return code, printed.getvalue()


def typed(page: str, line: str) -> str | None:
    """What is given to the shell for a line of a page: names filled in, and cut where that is said; None for what is not run here."""
    command = " ".join(re.sub(r"\s+#.*", "", line).split())
    if not_run(page, command) or (command in WHOLE_ONLY.get(page, {}) and not WHOLE):
        return None
    cut = "" if WHOLE else CUT.get(page, {}).get(command, "")
    for name, meant in NAMES.get(page, {}).items():
        command = re.sub(rf"\b{name}\b", meant, command)
    return f"{command} {cut}".strip()


def not_run(page: str, command: str) -> str | None:
    """Why nobody runs a command of a page; None where somebody does."""
    reasons = (why for pages, commands, why in NOT_RUN if fnmatchcase(page, pages) and fnmatchcase(command, commands))
    return next(reasons, None)


def follow(kind: str, text: str, told: str, page: str, *, widest: int | None = None) -> str:
    """Do what a block says, or check that what it shows was printed by the one before; returns what was printed."""
    if kind.startswith(("bash", "sh")):
        lines = [part for line in text.replace("\\\n", " ").splitlines() for part in line.split("; ")]
        shell = [command for line in lines if COMMAND.match(line) and (command := typed(page, line))]
        found = [(command, *done(command)) for command in shell]
        for command, code, printed in found:
            assert code == (2 if "refused" in kind else 0), f"{command}\n{printed}"
            if widest is not None and "--json" not in command:
                assert max(map(cell_len, printed.splitlines())) <= widest, f"{command}:\n{printed}"
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


def walk(page: str, folder: Path, *, widest: int | None = None) -> None:
    """Do everything that a page says, in this folder; nothing that is printed may be wider than `widest`."""
    told = ""
    with in_folder(folder) as patch:
        patch.setenv("COLUMNS", str(widest or 200))
        for kind, text in blocks(page):
            told = follow(kind, text, told, page, widest=widest)


@contextmanager
def in_folder(folder: Path) -> Iterator[pytest.MonkeyPatch]:
    """Work in this folder, where members that lie beside experiments are its own and not those of our examples."""
    _forget_modules_in(ROOT / "examples")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(sys, "path", [place for place in sys.path if not Path(place).is_relative_to(ROOT / "examples")])
        yield patch
    _forget_modules_in(folder)


def _forget_modules_in(folder: Path) -> None:
    """Members that lie beside an experiment are found by name, so one of another folder must not stay in this process."""
    for name, module in list(sys.modules.items()):
        if Path(getattr(module, "__file__", None) or "/").is_relative_to(folder):
            del sys.modules[name]
