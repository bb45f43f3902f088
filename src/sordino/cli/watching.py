"""The command that shows a run while it goes on."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from sordino.cli.application import AsJson, app
from sordino.cli.output import show_value
from sordino.startup import quick_imports


@app.command()
def watch(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run, also while it goes on.")],
    once: Annotated[bool, typer.Option("--once", help="Look once, and do not wait for more.")] = False,
    every: Annotated[float, typer.Option("--every", metavar="SECONDS", help="How often to look.")] = 1.0,
    as_json: AsJson = False,
) -> None:
    """Watch a run, or wait for it to begin: rounds, ε of each view, and each node's state, bytes and last sign of life."""
    with quick_imports():
        from sordino.engine.overseen import Overseer
        from sordino.report.watch_table import watch_screen

    overseer, seconds = Overseer(folder), max(0.1, every)
    if not (once or as_json or overseer.begun):
        typer.echo(f"Waiting for a run to begin in {folder}; Ctrl-C ends this.", err=True)
        while not overseer.begun:
            time.sleep(seconds)
    content = overseer.look()
    if once or as_json or content["finished"]:
        show_value(content, as_json, lambda: watch_screen(content))
        return
    from rich.live import Live

    with Live(watch_screen(content), auto_refresh=False) as live:
        while not content["finished"]:
            time.sleep(seconds)
            content = overseer.look()
            live.update(watch_screen(content), refresh=True)
