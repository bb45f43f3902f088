"""The command for auditors: whether the ledgers of server and nodes agree."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sordino.cli.application import AsJson, app
from sordino.cli.output import show_value
from sordino.startup import quick_imports

LEDGER = "ledger.jsonl"


@app.command()
def reconcile(
    server: Annotated[Path, typer.Argument(metavar="RUN", help="A run's folder, or the server's ledger file.")],
    nodes: Annotated[list[Path], typer.Argument(metavar="NODE...", help="Nodes' state folders, or ledger files.")],
    as_json: AsJson = False,
) -> None:
    """Check that the server's ledger of a run and nodes' own ledgers agree: every release charged, at the same price."""
    with quick_imports():
        from sordino.engine.reconcile import reconcile as compare_ledgers
        from sordino.report.ledger_tables import reconciled_table

    found = [compare_ledgers(_file(server), _file(node)) for node in nodes]
    show_value(found, as_json, lambda: reconciled_table(found))


def _file(path: Path) -> Path:
    return path / LEDGER if path.is_dir() else path
