"""The command that recommends settings: recommend."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sordino.cli.application import AsJson, ExperimentFile, Overrides, app
from sordino.cli.output import show_value
from sordino.startup import quick_imports


@app.command()
def recommend(
    file: ExperimentFile,
    epsilon: Annotated[float, typer.Option("--epsilon", help="The budget, in the file's view.")],
    proxy: Annotated[
        str | None,
        typer.Option("--proxy", metavar="SET", help="A public set to try on; default the file's public start."),
    ] = None,
    seconds: Annotated[
        float, typer.Option("--seconds", help="About how long to search; the trial comes on top.")
    ] = 60.0,
    jobs: Annotated[int, typer.Option("--jobs", help="Runs side by side.")] = 1,
    overrides: Overrides = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="TOML", help="Default NAME-recommended.toml beside the file.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Try corners of all axes on public data alone, and write the experiment file to use, with the evidence."""
    with quick_imports():
        from sordino.experiment import read_table
        from sordino.files import write_whole
        from sordino.recommend.searching import search
        from sordino.recommend.stand_in import make_stand_in
        from sordino.recommend.writing import as_file, evidence, recommended_table
        from sordino.report.comparison.comparing import compare
        from sordino.report.comparison.runs import find_runs
        from sordino.report.sweep_progress import watching_sweep
        from sordino.sweeps.cases import take_cases

    table = read_table(file, tuple(overrides or ()))
    take_cases(table)  # those of a sweep's file are for sweeps
    begin = file.resolve().parent
    place = Path("recommendations") / f"{table['name']}-{epsilon:g}"
    stand_in = make_stand_in(table, proxy, place, folder=begin)
    with watching_sweep(quiet=as_json) as look:
        found = search(stand_in, epsilon, place, folder=begin, seconds=seconds, jobs=jobs, look=look)
    (contest, *_) = compare(find_runs([found.trial]), view=table.get("privacy", {}).get("view", "public"))
    told = evidence(found, stand_in, epsilon=epsilon, sentence=contest.verdict.sentence)
    target = out or file.with_name(f"{file.stem}-recommended.toml")
    write_whole(target, as_file(recommended_table(table, stand_in, found, epsilon), told).encode())
    content = {
        "file": str(target),
        "recommended": found.best.name,
        "tried": found.tried,
        "trial": found.rows,
        "evidence": told,
    }
    show_value(content, as_json, lambda: [*told, f"\nThe file to use is {target}: sordino plan {target}"])
