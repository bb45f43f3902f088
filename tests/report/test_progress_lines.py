"""What is written while runs are at work: lines where no terminal is, bars that fit where one is."""

import io

import pytest
from rich.console import Console
from rich.progress import Progress as Bars

from sordino.engine.moment import Moment
from sordino.report import progress as runs
from sordino.report import sweep_progress as sweeps
from sordino.sweeps.progress import Progress


def training(done, accuracy=None, note=""):
    return Moment("training", done, 20, accuracy, None if accuracy is None else 1.25, note)


def state(**changes):
    facts = {"total": 36, "done": 12, "failed": 1, "running": {}, "seconds_left": 125.0}
    return Progress(**{**facts, **changes})


def test_without_a_terminal_each_evaluation_is_a_line(capfd, monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    with runs.watching(quiet=False) as watch:
        watch(training(1))
        watch(training(2, accuracy=0.5))
        watch(training(3, note="A sentence that is longer than the terminal is wide."))
    assert capfd.readouterr().err.splitlines() == [
        "training 2/20: 50.0% at ε 1.250",
        "A sentence that is longer than the terminal is wide.",
    ]


def test_nothing_is_written_where_json_is_asked_for(capfd):
    with runs.watching(quiet=True) as watch, sweeps.watching_sweep(quiet=True) as look:
        watch(training(2, accuracy=0.5))
        look(state(ended="a"))
    assert capfd.readouterr().err == ""


def test_without_a_terminal_each_run_of_a_sweep_is_a_line(capfd):
    with sweeps.watching_sweep(quiet=False) as look:
        look(state(running={"a, seed 1": training(3)}))
        look(state(ended="a, seed 1"))
        look(state(ended="b, seed 1", problem="It failed.", seconds_left=7300.0))
        look(state(ended="c, seed 1", done=35, seconds_left=0.0))
    assert capfd.readouterr().err.splitlines() == [
        "13/36 a, seed 1: done, about 2 min 5 s left",
        "13/36 b, seed 1: It failed., about 2 h 1 min left",
        "36/36 c, seed 1: done",
    ]


@pytest.mark.parametrize("width", [80, 120])
def test_a_live_table_fits_and_cuts_names_before_figures(width):
    file = io.StringIO()
    console = Console(file=file, width=width, force_terminal=True, color_system=None)
    long = f"dp-fedavg, {'learning_rate=0.1, ' * 8}seed 1"
    bars = Bars(*runs.bar_columns(), console=console)
    look = sweeps._LiveTable(bars)
    look(state(running={long: training(5, accuracy=0.5)}))
    look(state(running={long: training(6)}, ended="x, seed 2", problem="It failed.", seconds_left=754.0))
    console.print(bars.get_renderable())
    lines = file.getvalue().splitlines()
    assert "failed: x, seed 2: It failed." in file.getvalue()
    bar = next(line for line in lines if "50.0% at ε 1.250" in line)
    assert bar.startswith("dp-fedavg, l") and "…" in bar and "━" in bar and " 6/20 " in bar
    assert any(" 13/36 1 failed, about 12 min 34 s left" in line for line in lines)
    assert max(map(len, lines)) <= width
