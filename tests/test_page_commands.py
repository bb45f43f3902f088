"""No command or setting of a page escapes: it exists, and it is run or listed with the reason why not."""

import re
import shlex
import tomllib
from fnmatch import fnmatchcase

import click
import pytest
from typer.main import get_command

from sordino.cli import app
from sordino.engine.plan import make_plan
from sordino.experiment import experiment
from tests.page_cuts import CUT, FOLLOWED, IN_SHORT, NOT_RUN, WHOLE_ONLY
from tests.pages import PAGES, ROOT, blocks, commands, not_run
from tests.test_walk_deployment import WALKED

PROGRAM = get_command(app)
AROUND = {"rounds": 20, "model": "logistic", "method": "dp-fedavg", "data": {"source": "digits", "clients": 3}}
SHELL = ("bash", "bash refused", "sh")


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


@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_every_page_exist_with_their_options(page):
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for command in commands(page):
        if command.startswith("make "):
            assert command.split()[1] in targets, command
        if command.startswith("sordino "):
            try:
                parse(shlex.split(command)[1:])
            except click.UsageError as error:
                pytest.fail(f"{command}: {error.format_message()}")


def test_a_command_or_an_option_that_does_not_exist_is_found():
    assert "sordino plan examples/quickstart.toml" in commands("README.md")
    for words in (["fly", "a.toml"], ["plan", "a.toml", "--wings"], ["data", "hide", "a.toml"]):
        with pytest.raises(click.UsageError):
            parse(words)


def in_blocks(page):
    """The commands of the blocks that whoever follows a page runs."""
    shown = "\n".join(text.replace("\\\n", " ") for kind, text in blocks(page) if kind in SHELL)
    lines = [part for line in shown.splitlines() for part in re.sub(r"\s+#.*", "", line).split("; ")]
    return {" ".join(line.split()) for line in lines}


@pytest.mark.parametrize("page", PAGES)
def test_every_command_of_every_page_is_run_or_listed_with_its_reason(page):
    ran = set(WALKED) if page == "docs/deployment.md" else in_blocks(page) if page in FOLLOWED else set()
    ran |= set(IN_SHORT.get(page, {}))
    for command in commands(page):
        listed = not_run(page, command)
        assert (command in ran) or listed, (
            f"{page} says `{command}`: have it followed, or list it in tests/page_cuts.py"
        )


def test_nothing_is_listed_that_is_on_no_page():
    said = [(page, command) for page in PAGES for command in commands(page)]
    for pages, pattern, _ in NOT_RUN:
        assert any(fnmatchcase(page, pages) and fnmatchcase(command, pattern) for page, command in said), pattern
    for table in (CUT, WHOLE_ONLY, IN_SHORT):
        for page, own in table.items():
            assert set(own) <= set(commands(page)), page


def test_tests_that_stand_for_a_command_are_there():
    reasons = [why for *_, why in NOT_RUN] + [why for own in WHOLE_ONLY.values() for why in own.values()]
    named = {name for why in [*reasons, *FOLLOWED.values()] for name in re.findall(r"tests/\w+(?:/\w+)?(?:\.py)?", why)}
    assert len(named) > 5
    assert [name for name in named if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("page", ["README.md", "docs/mechanisms/correlated-noise.md", "docs/tuning.md"])
def test_the_settings_of_a_page_can_be_planned(page):
    shown = [text for kind, text in blocks(page) if kind == "toml"]
    assert shown
    for block in shown:
        table = tomllib.loads(block)
        epsilon = {} if {"epsilon", "client_epsilon"} & set(table["privacy"]) else {"epsilon": 8.0}
        table["privacy"] = {"delta": 1e-3, **epsilon, **table["privacy"]}
        make_plan(experiment({**AROUND, **table}))
