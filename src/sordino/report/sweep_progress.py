"""What the terminal shows while a sweep is at work: what is done, what runs now, and how long the rest may take."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import Progress as Bars
from rich.progress import TaskID
from rich.text import Text

from sordino.report.progress import bar_columns, facts_of, fitting, write_line

if TYPE_CHECKING:
    from sordino.engine.moment import Moment
    from sordino.sweeps.progress import Onlooker, Progress


@contextmanager
def watching_sweep(*, quiet: bool) -> Iterator[Onlooker]:
    """An onlooker for a sweep: a bar for all, one for each run at work, and a line for each that failed.

    Without a terminal, a line for each run that ended.
    """
    if quiet:
        yield lambda progress: None
        return
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda progress: _line(console, progress)
        return
    with Bars(*bar_columns(), console=console, transient=True) as bars:
        yield _LiveTable(bars)


def _line(console: Console, progress: Progress) -> None:
    if progress.note:
        write_line(console, progress.note)
    if progress.ended:
        told = ", ".join([progress.problem or "done", *_left(progress)])
        write_line(console, f"{progress.over}/{progress.total} {progress.ended}: {told}")


class _LiveTable:
    """One line for the sweep, and one below for each run at work."""

    def __init__(self, bars: Bars) -> None:
        self._bars = bars
        self._all = bars.add_task("sweep", total=None, facts="")
        self._tasks: dict[str, TaskID] = {}
        self._facts: dict[str, str] = {}

    def __call__(self, progress: Progress) -> None:
        if told := progress.note or (progress.problem and f"failed: {progress.ended}: {progress.problem}"):
            self._bars.console.print(Text(told, style="red"))
        for label in set(self._tasks) - set(progress.running):
            self._bars.remove_task(self._tasks.pop(label))
        for label, moment in progress.running.items():
            self._update(label, moment)
        failed = [f"{progress.failed} failed"] if progress.failed else []
        facts = ", ".join([*failed, *_left(progress)])
        self._bars.update(self._all, completed=progress.over, total=progress.total, facts=facts)

    def _update(self, label: str, moment: Moment) -> None:
        if label not in self._tasks:
            self._tasks[label] = self._bars.add_task(fitting(label, self._bars.console), total=moment.total, facts="")
            self._facts[label] = ""
        stage = "" if moment.stage == "training" else moment.stage
        self._facts[label] = facts_of(moment) or stage or self._facts[label]
        self._bars.update(self._tasks[label], completed=moment.done, total=moment.total, facts=self._facts[label])


def _left(progress: Progress) -> list[str]:
    """How long the rest may take, where that is known."""
    if progress.seconds_left is None or progress.over == progress.total:
        return []
    minutes, seconds = divmod(round(progress.seconds_left), 60)
    hours, minutes = divmod(minutes, 60)
    text = f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds} s" if minutes else f"{seconds} s"
    return [f"about {text} left"]
