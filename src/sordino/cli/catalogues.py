"""Commands that list what there is: methods, data list, data show."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any

import typer
from rich.markup import escape

from sordino.cli.application import AsJson, ExperimentFile, Overrides, app, data_app
from sordino.cli.output import show_value
from sordino.startup import quick_imports


@app.command()
def methods(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="One choice, with all its settings.")] = None,
    as_json: AsJson = False,
) -> None:
    """List every choice on every axis, or say everything about one."""
    if name is not None:
        return _one_part(name, as_json)
    with quick_imports():
        from sordino.report.catalogue import axes
        from sordino.report.terminal import axes_table

    catalogue = axes()
    show_value(catalogue, as_json, lambda: axes_table(catalogue))


def _one_part(name: str, as_json: bool) -> None:
    with quick_imports():
        from sordino.reference.pages import described_lines
        from sordino.reference.parts import part

    found = part(name)
    show_value(dataclasses.asdict(found), as_json, lambda: escape("\n".join(described_lines(found))))


@data_app.command("list")
def data_list(as_json: AsJson = False) -> None:
    """Data sets that can be used by name on this machine."""
    with quick_imports():
        from sordino.data.source import known
        from sordino.report.terminal import sources_table

    sources = [{"name": entry.name, "format": entry.format, "path": str(entry.path or "")} for entry in known()]
    show_value(sources, as_json, lambda: sources_table(sources))


@data_app.command("show")
def data_show(file: ExperimentFile, overrides: Overrides = None, as_json: AsJson = False) -> None:
    """Draw which client of an experiment holds which labels (a non-private look at a simulation)."""
    with quick_imports():
        from sordino.data.beside import relative_to
        from sordino.data.columns import tables_of
        from sordino.data.label_chart import label_chart
        from sordino.engine.dealing import federate
        from sordino.engine.resolved import resolve
        from sordino.experiment import read
        from sordino.outside import look_beside
        from sordino.report.columns import columns_tables

    experiment = read(file, tuple(overrides or ()))
    look_beside(file.resolve().parent)
    with relative_to(file.resolve().parent):
        federated = federate(resolve(experiment))
    source = federated.source
    labels = source.groups(source.train)
    counts: dict[str, Any] = {
        "clients": federated.partition.clients,
        "client_names": federated.names,
        "sizes": federated.sizes,
        "classes": source.classes,
        "class_names": source.class_names,
        "columns": tables_of(source.layout),
        "test": source.n_test,
        "held_out": 0 if federated.held_out is None else len(federated.held_out.indices),
    }
    show_value(
        counts,
        as_json,
        lambda: [
            *columns_tables(counts["columns"]),
            label_chart(federated.partition, labels, source.group_names, federated.names),
        ],
    )
