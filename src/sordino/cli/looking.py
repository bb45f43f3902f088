"""Commands that look at finished runs: show, compare, report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sordino.cli.application import AsJson, app
from sordino.cli.output import show_value
from sordino.startup import quick_imports


@app.command()
def show(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR...", help="Folders of runs or sweeps.")],
    as_json: AsJson = False,
    check: Annotated[
        bool,
        typer.Option("--verify", help="Price the ledger again from its file alone, and compare with what is told."),
    ] = False,
    page: Annotated[Path | None, typer.Option("--report", metavar="HTML", help="Also write a report of them.")] = None,
) -> None:
    """Show finished runs and sweeps, or check that run folders hold together."""
    with quick_imports():
        from sordino.report.shown import content_of, drawn

    shown = [content_of(folder, verified=check) for folder in folders]
    if page is not None:
        from sordino.report.page.writing import tell, write_report

        write_report(tell(folders), page)
    content = [one.content for one in shown]
    show_value(content[0] if len(content) == 1 else content, as_json, lambda: drawn(shown))


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
    figure: Annotated[
        Path | None, typer.Option("--figure", metavar="SVG|PNG", help="Also draw accuracy over ε into this file.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Which loses least at a budget: accuracy over ε with seeds, and whether differences are more than noise."""
    with quick_imports():
        from sordino.report.comparison.choices import comparison_content
        from sordino.report.comparison.comparing import compare as compare_runs
        from sordino.report.comparison.runs import find_runs, read_view
        from sordino.report.comparison.tables import comparison_report

    seen_by = read_view(view)
    runs = find_runs(folders)
    contests = compare_runs(runs, by=by, view=seen_by, epsilon=epsilon)
    if csv is not None:
        from sordino.report.comparison.tidy import write_csv

        write_csv(runs, csv)
    if figure is not None:
        from sordino.report.page.writing import draw_fronts

        draw_fronts(folders, figure, by=by, view=seen_by, epsilon=epsilon)
    content = comparison_content(contests, folders)
    show_value(content, as_json, lambda: comparison_report(contests, about_choice=content["about_the_choice"]))


@app.command()
def report(
    folders: Annotated[
        list[Path], typer.Argument(metavar="DIR...", help="Runs, sweeps, or folders with runs somewhere below.")
    ],
    out: Annotated[Path, typer.Option("--out", metavar="HTML", help="Where the page goes.")] = Path("report.html"),
    by: Annotated[str | None, typer.Option("--by", metavar="KEY", help="What to compare, as in `compare`.")] = None,
    epsilon: Annotated[float | None, typer.Option("--epsilon", help="The budget to ask at, as in `compare`.")] = None,
    title: Annotated[str, typer.Option("--title", help="Default the folders' names.")] = "",
) -> None:
    """One page of everything: what was promised to whom, accuracy over ε, rounds, clients, settings."""
    with quick_imports():
        from sordino.report.page.writing import tell, write_report

    write_report(tell(folders, title=title, by=by, epsilon=epsilon), out)
    typer.echo(f"The report is {out}; it needs no network, so open it or send it.")
