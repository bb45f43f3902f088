"""The command that runs a grid of settings: sweep."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sordino.cli.application import AsJson, Overrides, app
from sordino.cli.output import show_value
from sordino.startup import quick_imports

SOME_FAILED = 1
"""The exit code where runs failed and the others went on."""


@app.command()
def sweep(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="An experiment file (TOML), perhaps with [[case]] tables.")
    ],
    over: Annotated[
        list[str] | None, typer.Option("--over", metavar="KEY=V1,V2", help="Values to try; repeat for a grid.")
    ] = None,
    seeds: Annotated[int, typer.Option("--seeds", help="Runs of each configuration; --choose uses one seed.")] = 3,
    jobs: Annotated[int, typer.Option("--jobs", help="Runs side by side, each in a process of its own.")] = 1,
    choose: Annotated[
        str | None,
        typer.Option("--choose", metavar="RULE", help="Choose at a price: logarithmic, geometric or poisson runs."),
    ] = None,
    expected_runs: Annotated[float, typer.Option("--expected-runs", help="Of --choose, on average.")] = 10.0,
    overrides: Overrides = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="DIR", help="Default sweeps/NAME.")] = None,
    page: Annotated[
        Path | None, typer.Option("--report", metavar="HTML", help="Where its report goes; default DIR/report.html.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run a grid of settings with several seeds; what is done already is skipped, and what fails is told of."""
    with quick_imports():
        from sordino.report.sweep_progress import watching_sweep
        from sordino.report.sweep_table import sweep_report
        from sordino.sweeps.choosing import run_choice
        from sordino.sweeps.draws import read_rule
        from sordino.sweeps.grid import read_sweep
        from sordino.sweeps.running import run_sweep

    grid = read_sweep(file, tuple(overrides or ()), over=over or (), seeds=seeds)
    folder = out or Path("sweeps") / str(grid.table["name"])
    rule = None if choose is None else read_rule(choose, expected_runs)
    begin = file.resolve().parent
    with watching_sweep(quiet=as_json) as look:
        if rule is None:
            results = run_sweep(grid, folder, folder=begin, jobs=jobs, look=look)
        else:
            results = run_choice(grid, rule, folder, folder=begin, jobs=jobs, look=look)
    content = results.to_json()
    written = _report(content, str(grid.table["name"]), folder, page or folder / "report.html")
    show_value(content, as_json, lambda: [*sweep_report(content), *written])
    if results.problems:
        raise typer.Exit(SOME_FAILED)


def _report(content: dict[str, Any], title: str, folder: Path, page: Path) -> list[str]:
    """Write the report of a sweep that has any run, and say where."""
    if not any(row["runs"] for row in content["rows"]):
        return []
    from sordino.report.page.writing import tell, write_report

    write_report(tell([folder], title=title), page)
    return [f"The report is {page}."]
