"""The command that shows real nodes at work: federate."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Annotated

import typer

from sordino.cli.application import AsJson, ExperimentFile, Overrides, app
from sordino.cli.output import show_value
from sordino.startup import quick_imports


@app.command()
def federate(
    file: ExperimentFile,
    overrides: Overrides = None,
    local: Annotated[
        int | None,
        typer.Option("--local", metavar="N", min=1, help="So many nodes; default as many as [data] clients."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="For the run, keys, logs and ledgers; default runs/NAME-federation."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run an experiment on real nodes on this machine: SuperLink and SuperNodes, TLS, keys, a data file for each."""
    from sordino.experiment import read
    from sordino.report.progress import watching

    experiment = read(file, tuple(overrides or ()))
    folder = out or _unused(Path("runs") / f"{experiment.name}-federation")
    with quick_imports():
        from sordino.engine.engines import needs_flower

        needs_flower()
        from sordino.engine.flower.rehearse import rehearse
        from sordino.report.rehearsal_tables import rehearsal_content, rehearsal_tables

    with watching(quiet=as_json) as watch:
        found = rehearse(experiment, folder, nodes=local, folder=file.resolve().parent, watch=watch)
    content = rehearsal_content(found)
    show_value(content, as_json, lambda: rehearsal_tables(content))


def _unused(folder: Path) -> Path:
    """This folder, or the first of its numbered neighbours that nobody has used: each federation has keys of its own."""
    numbered = (folder.with_name(f"{folder.name}-{number}") for number in itertools.count(2))
    return next(place for place in itertools.chain([folder], numbered) if not place.exists())
