"""What the terminal shows while runs are at work: bars where somebody watches, lines where a file does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn, TimeRemainingColumn
from rich.text import Text

from sordino.report.terminal import epsilon_text

SHORTEST_NAME, BESIDE_NAME = 16, 56
"""Columns of a name at least, and of the bar, the count, the facts and the time beside it."""

if TYPE_CHECKING:
    from sordino.engine.moment import Moment, Watcher


@contextmanager
def watching(*, quiet: bool) -> Iterator[Watcher]:
    """An onlooker for a run: a bar with round, accuracy, ε so far and the time that is left.

    Without a terminal, a line for each evaluation and each note.
    """
    if quiet:
        yield lambda moment: None
        return
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _lines(console)
        return
    with Progress(*bar_columns(), TimeRemainingColumn(compact=True), TextColumn("left"), console=console) as progress:
        yield _bars(progress)


def bar_columns() -> list[ProgressColumn]:
    """Name, bar, count and facts."""
    return [
        TextColumn("{task.description}"),
        BarColumn(bar_width=12),
        MofNCompleteColumn(),
        TextColumn("{task.fields[facts]}"),
    ]


def fitting(name: str, console: Console) -> str:
    """A name that leaves room for what stands beside it: it gives way where the terminal is narrow."""
    room = max(SHORTEST_NAME, console.width - BESIDE_NAME)
    return escape(name if len(name) <= room else f"{name[: room - 1]}…")


def facts_of(moment: Moment) -> str:
    """How good the model is at which ε, if that was looked at in this round."""
    if moment.accuracy is None or moment.epsilon is None:
        return ""
    return f"{moment.accuracy:.1%} at ε {epsilon_text(moment.epsilon)}"


def _bars(progress: Progress) -> Watcher:
    state: dict[str, Any] = {}

    def watch(moment: Moment) -> None:
        if moment.note:
            progress.console.print(Text(moment.note))
        again = moment.done <= state.get("done", 0)
        if moment.stage != state.get("stage") or again:
            task = progress.add_task(fitting(moment.stage, progress.console), total=moment.total, facts="")
            state.update(stage=moment.stage, facts="", task=task)
        state["done"] = moment.done
        state["facts"] = facts_of(moment) or state["facts"]
        progress.update(state["task"], completed=moment.done, total=moment.total, facts=state["facts"])

    return watch


def _lines(console: Console) -> Callable[[Moment], None]:
    def watch(moment: Moment) -> None:
        if moment.note:
            write_line(console, moment.note)
        if facts := facts_of(moment):
            write_line(console, f"{moment.stage} {moment.done}/{moment.total}: {facts}")

    return watch


def write_line(console: Console, text: str) -> None:
    """One line however long, for files and pipes."""
    console.print(Text(text), soft_wrap=True)
