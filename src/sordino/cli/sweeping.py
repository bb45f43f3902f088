"""The command that runs a grid of settings: sweep."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sordino.cli.application import AsJson, ExperimentFile, Overrides, app
from sordino.cli.output import show_value
from sordino.startup import quick_imports


@app.command()
def sweep(
    file: ExperimentFile,
    over: Annotated[list[str], typer.Option("--over", metavar="KEY=V1,V2", help="Values to try; repeat for a grid.")],
    seeds: Annotated[int, typer.Option("--seeds", help="Runs of each configuration.")] = 3,
    overrides: Overrides = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="DIR", help="Default sweeps/NAME.")] = None,
    figure: Annotated[
        Path | None, typer.Option("--figure", metavar="HTML", help="Where it is drawn; default DIR/sweep.html.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run a grid of settings with several seeds; what is done already is skipped."""
    with quick_imports():
        from sordino.engine.sweep import Sweep, read_axes, run_sweep
        from sordino.experiment import read_table
        from sordino.report.terminal import sweep_table, watching

    table = read_table(file, tuple(overrides or ()))
    grid = Sweep(table=table, axes=read_axes(over), seeds=seeds)
    folder = out or Path("sweeps") / str(table["name"])
    with watching(quiet=as_json) as watch:
        rows = run_sweep(grid, folder, folder=file.resolve().parent, watch=watch)
    from sordino.report.figures import sweep_figure, write_page

    write_page(str(table["name"]), [sweep_figure(rows)], figure or folder / "sweep.html")
    show_value(rows, as_json, lambda: sweep_table(rows))
