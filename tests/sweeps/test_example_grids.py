"""Sweeps that the comments of example files tell people to type: every cell of every one of them is a valid experiment."""

import re
import shlex

import pytest

from sordino.core import SordinoError
from sordino.engine.resolved import resolve
from sordino.experiment import experiment
from sordino.sweeps.grid import read_sweep
from tests.pages import ROOT

EXAMPLES = sorted((ROOT / "examples").rglob("*.toml"))


def told(path):
    """The words of each `sordino sweep` in a file's comments; a backslash at the end of a line goes on."""
    comments = "\n".join(line.lstrip("# ") for line in path.read_text().splitlines() if line.startswith("#"))
    lines = comments.replace("\\\n", " ")
    return [shlex.split(words) for words in re.findall(r"sordino sweep ([^`\n]+)", lines)]


def grid(words, path):
    options = {"--over": [], "--set": [], "--seeds": ["1"]}
    for name, value in zip(words[1::2], words[2::2], strict=True):
        options[name].append(value)
    file = path if words[0] == "FILE" else ROOT / words[0]
    return read_sweep(file, tuple(options["--set"]), over=options["--over"], seeds=1)


SWEEPS = [(path, words) for path in EXAMPLES for words in told(path)]


def test_there_are_such_sweeps_and_a_wrong_one_is_found():
    assert len(SWEEPS) > 50
    [cell] = grid(
        ["FILE", "--set", "method.name=pmtl-ft"], ROOT / "examples/personalised/table5-cifar10-s10.toml"
    ).cells()
    with pytest.raises(SordinoError, match="no setting in"):
        resolve(experiment({**cell.table, "method": {"name": "pmtl-ft", "layers": 2}}))


@pytest.mark.parametrize(
    ("path", "words"), SWEEPS, ids=[f"{path.relative_to(ROOT)}: {words[1:]}" for path, words in SWEEPS]
)
def test_every_cell_of_a_sweep_in_a_comment_is_an_experiment(path, words):
    for cell in grid(words, path).cells():
        resolve(experiment(cell.table))
