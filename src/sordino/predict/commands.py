"""The commands `sordino predict` and `sordino export`. Heavy imports happen inside them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from sordino.startup import quick_imports

ModelFolder = Annotated[
    Path, typer.Argument(metavar="DIR", help="A run folder, the release of a secure run, or an export.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]


def predict(
    folder: ModelFolder,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Rows to predict, in the columns of the training table.")
    ],
    out: Annotated[Path | None, typer.Option("--out", metavar="CSV", help="Write every row into this table.")] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option("--keep", metavar="COLUMN", help="Also write this column of FILE; repeat for more."),
    ] = None,
    client: Annotated[
        str | None,
        typer.Option("--client", metavar="NAME", help="With the own model of a client of a personalised simulation."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Predict the class of each row of a file, with the probability of every class, or the number that was learnt."""
    with quick_imports():
        from sordino.files import to_json
        from sordino.predict.loading import load
        from sordino.predict.predictions import predictions, predictions_table, write_csv

    predictor = load(folder, client=client)
    found = predictions(predictor, file, keep=tuple(keep or ()))
    if predictor.note:
        sys.stderr.write(f"sordino: {predictor.note}\n")
    if out is not None:
        write_csv(found, out)
    if as_json:
        sys.stdout.write(to_json(found, indent=2) + "\n")
        return
    from rich.console import Console

    Console(emoji=False).print(predictions_table(found, out))


def export(
    folder: ModelFolder,
    to: Annotated[
        Literal["safetensors", "torchscript", "onnx"], typer.Option("--to", help="The form of the exported model.")
    ] = "safetensors",
    out: Annotated[Path | None, typer.Option("--out", metavar="DIR", help="Default DIR/export-FORM.")] = None,
    as_json: AsJson = False,
) -> None:
    """Write the model in a form that others read, with a card that says what it promises."""
    with quick_imports():
        from sordino.files import to_json
        from sordino.predict.export import write_export

    place = out or folder / f"export-{to}"
    files = write_export(folder, place, to)
    if as_json:
        sys.stdout.write(to_json({"folder": str(place), "files": files}, indent=2) + "\n")
        return
    sys.stdout.write(f"{place} holds {', '.join(files)}\n")
