"""Commands that run an experiment: run, plan, finish."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from sordino.cli.application import AsJson, ExperimentFile, Overrides, app
from sordino.cli.output import show_value
from sordino.startup import quick_imports


@app.command()
def run(
    file: ExperimentFile,
    overrides: Overrides = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="DIR", help="The run folder; default runs/NAME.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue an unfinished run in its folder.")] = False,
    as_json: AsJson = False,
) -> None:
    """Run an experiment."""
    from sordino.experiment import read
    from sordino.report.progress import watching
    from sordino.report.terminal import summary_table

    experiment = read(file, tuple(overrides or ()))
    folder = out or Path("runs") / experiment.name
    with quick_imports():
        from sordino.engine.run import run_experiment

    with watching(quiet=as_json) as watch:
        summary = run_experiment(experiment, folder, resume=resume, folder=file.resolve().parent, watch=watch)
    show_value(summary, as_json, lambda: summary_table([summary]))


@app.command()
def plan(
    file: ExperimentFile,
    overrides: Overrides = None,
    all_accountants: Annotated[bool, typer.Option("--all-accountants", help="Show RDP beside PLD too.")] = False,
    trial: Annotated[
        bool, typer.Option("--trial/--no-trial", help="Try each phase for a moment, to tell time and memory.")
    ] = True,
    as_json: AsJson = False,
) -> None:
    """Work out noise, ε per view, memory and time, and refuse what a run would refuse; no private row is trained on."""
    with quick_imports():
        from sordino.engine.plan import make_plan
        from sordino.experiment import read
        from sordino.report.terminal import plan_table

    experiment = read(file, tuple(overrides or ()))
    folder = file.resolve().parent
    planned = make_plan(
        experiment, all_accountants=all_accountants, folder=folder, measure=trial, before=time.process_time()
    )
    show_value(planned.to_json(), as_json, lambda: plan_table(planned.to_json()))


@app.command()
def finish(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of an unfinished run.")],
    as_json: AsJson = False,
) -> None:
    """Make model and summary of the rounds that an unfinished run has completed and paid for, and train no more."""
    from sordino.report.progress import watching
    from sordino.report.terminal import summary_table

    with quick_imports():
        from sordino.engine.run import finish as finish_run

    with watching(quiet=as_json) as watch:
        summary = finish_run(folder, watch=watch)
    show_value(summary, as_json, lambda: summary_table([summary]))
