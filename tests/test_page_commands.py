"""Commands and settings on any page are ones that exist, also where following the page would take too long for a test."""

import re
import shlex
import tomllib
from pathlib import Path

import click
import pytest
from typer.main import get_command

from sordino.cli import app
from sordino.engine.plan import make_plan
from sordino.experiment import experiment

ROOT = Path(__file__).parent.parent
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
PROGRAM = get_command(app)
AROUND = {"rounds": 20, "model": "logistic", "method": "dp-fedavg", "data": {"source": "digits", "clients": 3}}
FENCE = r"^```(.*)\n((?:.*\n)*?)^```$"


def commands(page):
    """Whole calls of `sordino` on a page: lines of blocks, and spans of code that give a command something to do."""
    text = page.read_text(encoding="utf-8")
    lines = [
        line for _, block in re.findall(FENCE, text, re.MULTILINE) for line in block.replace("\\\n", " ").splitlines()
    ]
    spans = re.findall(r"`(sordino [^`]+)`", re.sub(FENCE, "", text, flags=re.MULTILINE))
    for line in (*lines, *(span for span in spans if len(span.split()) > 2)):
        for part in line.split("; "):
            words = shlex.split(part, comments=True) if part.startswith("sordino ") else []
            if words and not any("..." in word or "…" in word or "|" in word for word in words):
                yield words[1:]


def parse(words):
    """As the command line takes it, without doing anything."""
    command, parent = PROGRAM, None
    while isinstance(command, click.Group) and not words[0].startswith("-"):
        name, words = words[0], words[1:]
        parent = click.Context(command, parent=parent)
        command = command.get_command(parent, name)
        if command is None:
            raise click.UsageError(f"There is no command {name!r}")
    context = click.Context(command, parent=parent)
    command.make_parser(context).parse_args(list(words))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_commands_of_every_page_exist_with_their_options(page):
    for words in commands(page):
        try:
            parse(words)
        except click.UsageError as error:
            pytest.fail(f"{shlex.join(['sordino', *words])}: {error.format_message()}")


def test_a_command_or_an_option_that_does_not_exist_is_found():
    assert ["plan", "examples/quickstart.toml"] in list(commands(ROOT / "README.md"))
    for words in (["fly", "a.toml"], ["plan", "a.toml", "--wings"], ["data", "hide", "a.toml"]):
        with pytest.raises(click.UsageError):
            parse(words)


@pytest.mark.parametrize("page", ["README.md", "docs/mechanisms/correlated-noise.md", "docs/tuning.md"])
def test_the_settings_of_a_page_can_be_planned(page):
    blocks = [text for kind, text in re.findall(FENCE, (ROOT / page).read_text(), re.MULTILINE) if kind == "toml"]
    assert blocks
    for block in blocks:
        table = tomllib.loads(block)
        epsilon = {} if {"epsilon", "client_epsilon"} & set(table["privacy"]) else {"epsilon": 8.0}
        table["privacy"] = {"delta": 1e-3, **epsilon, **table["privacy"]}
        make_plan(experiment({**AROUND, **table}))
