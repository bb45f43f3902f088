"""Commands that look at finished runs: show."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sordino.cli.application import AsJson, app
from sordino.cli.output import show_value
from sordino.startup import quick_imports


@app.command()
def show(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A run folder.")],
    as_json: AsJson = False,
    check: Annotated[
        bool,
        typer.Option("--verify", help="Price the ledger again from its file alone, and compare with what is told."),
    ] = False,
    figure: Annotated[
        Path | None, typer.Option("--figure", metavar="HTML", help="Also draw the run into this page.")
    ] = None,
) -> None:
    """Show a finished run, or check that a run folder holds together."""
    if check:
        with quick_imports():
            from sordino.engine.verify import verify
            from sordino.report.terminal import verification_table

        found = verify(folder)
        show_value(found, as_json, lambda: verification_table(found))
        return
    with quick_imports():
        from sordino.engine.record import RunRecord, read_summary
        from sordino.report.terminal import curve, summary_table

    summary = read_summary(folder)
    record = RunRecord(folder)
    metrics = record.read_metrics()
    if figure is not None:
        from sordino.report.figures import accuracy_figure, diagnostics_figures, write_page

        figures = [accuracy_figure({summary["name"]: metrics}), *diagnostics_figures(record.read_diagnostics())]
        write_page(summary["name"], figures, figure)
    show_value({**summary, "metrics": metrics}, as_json, lambda: [summary_table([summary]), curve(metrics)])


@app.command()
def compare(
    folders: Annotated[
        list[Path], typer.Argument(metavar="DIR...", help="Runs, sweeps, or folders with runs somewhere below.")
    ],
    by: Annotated[
        str | None,
        typer.Option("--by", metavar="KEY", help="What to compare; default method, or what differs if there is one."),
    ] = None,
    view: Annotated[str, typer.Option("--view", help="Whose ε: public, server or client.")] = "public",
    epsilon: Annotated[
        float | None,
        typer.Option("--epsilon", help="The budget; default the smallest that all who promise any keep to."),
    ] = None,
    csv: Annotated[
        Path | None, typer.Option("--csv", metavar="FILE", help="Also write all runs, one row per seed.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Which loses least at a budget: accuracy over ε with seeds, and whether differences are more than noise."""
    with quick_imports():
        from sordino.report.comparison.comparing import compare as compare_runs
        from sordino.report.comparison.runs import find_runs, read_view
        from sordino.report.comparison.tables import comparison_report

    seen_by = read_view(view)
    runs = find_runs(folders)
    contests = compare_runs(runs, by=by, view=seen_by, epsilon=epsilon)
    if csv is not None:
        from sordino.report.comparison.tidy import write_csv

        write_csv(runs, csv)
    show_value([contest.to_json() for contest in contests], as_json, lambda: comparison_report(contests))
