"""Long names in narrow tables."""

import io

import pytest
from rich.console import Console
from rich.table import Table

from sordino.report.joints import Jointed

NAME = "privacy.participation_cap=10, method.learning_rate=0.03"


def shown(width, *lines):
    console = Console(file=io.StringIO(), width=width)
    table = Table(box=None, show_header=False)
    table.add_row(Jointed(*lines))
    console.print(table)
    return [line.strip() for line in console.file.getvalue().splitlines()]


@pytest.mark.parametrize("width", [18, 24, 40, 80])
def test_a_name_breaks_at_its_joints_and_nothing_is_lost(width):
    lines = shown(width, (NAME, "dim"))
    assert "".join(lines).replace(" ", "") == NAME.replace(" ", "")
    assert all(line[-1] in "._=,-" for line in lines[:-1])
    assert (len(lines) == 1) == (width == 80)


def test_a_number_is_never_broken():
    assert shown(24, ("server_learning_rate=0.01, tau=1e-05", "")) == ["server_learning_rate=", "0.01, tau=1e-05"]
    assert shown(11, ("tau=1e-05", "")) == ["tau=1e-05"]


def test_a_space_goes_before_a_joint():
    assert shown(22, ("method=dp-fedavg, noise=local", "")) == ["method=dp-fedavg,", "noise=local"]


def test_a_word_that_has_no_joint_is_folded_rather_than_cut():
    assert "".join(shown(8, ("participation", ""))) == "participation"


def test_lines_stay_lines_and_brackets_are_no_markup():
    assert shown(80, ("[8]", ""), ("rest", "dim")) == ["[8]", "rest"]
