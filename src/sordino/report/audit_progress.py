"""A bar for each stage of an audit or an attack, where somebody watches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

Stages = Callable[[str, int, int], None]


@contextmanager
def watching_stages(*, quiet: bool) -> Iterator[Stages]:
    """Told the stage, how much is done, and of how much; the time that is left is guessed from that."""
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield lambda stage, done, total: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(bar_width=20), MofNCompleteColumn())
    with Progress(*columns, TimeRemainingColumn(compact=True), TextColumn("left"), console=console) as progress:
        tasks: dict[str, TaskID] = {}

        def watch(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                tasks[stage] = progress.add_task(stage, total=total)
            progress.update(tasks[stage], completed=done, total=total)

        yield watch
