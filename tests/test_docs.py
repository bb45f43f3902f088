"""Pages that promise their commands work: files are written and commands run as they stand there."""

import re
import shlex
import sys
from pathlib import Path

import pytest

from sordino.cli import main
from tests.pages import walk

ROOT = Path(__file__).parent.parent
PAGES = ["comparing.md"]


def blocks(page, language):
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page_work_and_fit_the_terminal(page, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    for block in blocks(page, "toml"):
        name = re.match(r"# (\S+\.toml)\n", block)
        assert name, "a file of a page begins with its name"
        Path(name[1]).write_text(block)
    commands = [line for block in blocks(page, "sh") for line in block.splitlines()]
    assert commands
    for command in commands:
        monkeypatch.setattr(sys, "argv", shlex.split(command))
        try:
            main()
        except SystemExit as stop:
            assert not stop.code, f"{command}: {capfd.readouterr().err}"
        shown = capfd.readouterr().out
        if "--json" not in command:
            assert max(map(len, shown.splitlines())) <= 80, f"{command}:\n{shown}"


@pytest.mark.parametrize("page", ["library.md", "own-loop.md"])
def test_the_snippets_of_a_page_run(page, tmp_path):
    walk(f"docs/{page}", tmp_path)
