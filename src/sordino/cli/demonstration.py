"""The command that makes the case: demo."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sordino.cli.application import AsJson, app
from sordino.cli.output import show_value
from sordino.startup import quick_imports


@app.command()
def demo(
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where the three runs go.")] = Path("runs/demo"),
    as_json: AsJson = False,
) -> None:
    """Compare no privacy, private from scratch, and private from a public start, on embedded data."""
    with quick_imports():
        from sordino.demo import run_demo
        from sordino.report.progress import watching
        from sordino.report.terminal import summary_table

    with watching(quiet=as_json) as watch:
        summaries = run_demo(out, watch)
    show_value(summaries, as_json, lambda: summary_table(summaries))
