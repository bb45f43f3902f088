"""The application that commands join, and the arguments they share."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

NO_COLOR = "--no-color"

app = typer.Typer(
    help="Federated learning under differential privacy, with an ε that can be defended.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    suggest_commands=False,  # click suggests them too
    context_settings={"help_option_names": ["-h", "--help"]},
)
data_app = typer.Typer(
    help="Data sets: what is known here, and how an experiment spreads them over clients.", no_args_is_help=True
)

ExperimentFile = Annotated[Path, typer.Argument(metavar="FILE", help="An experiment file (TOML).")]
Overrides = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change one setting, e.g. privacy.epsilon=2.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]


def _show_version(asked: bool) -> None:
    if asked:
        from sordino import __version__

        typer.echo(f"sordino {__version__}")
        raise typer.Exit


@app.callback()
def settle_colors(
    no_color: Annotated[bool, typer.Option(NO_COLOR, help="Print without colours; it may stand anywhere.")] = False,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version, and stop.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Whatever writes to a terminal honours NO_COLOR."""
    if no_color:
        os.environ["NO_COLOR"] = "1"
