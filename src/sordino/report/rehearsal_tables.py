"""What a real federation on one machine shows at its end: the model's table, and every node's own ledger in one."""

from __future__ import annotations

import math
from typing import Any

from rich.table import Table

from sordino.core import VIEWS
from sordino.engine.flower.rehearse import Rehearsed
from sordino.report.ledger_tables import ledger_content
from sordino.report.terminal import summary_table


def rehearsal_content(found: Rehearsed) -> dict[str, Any]:
    nodes = {name: ledger_content(ledger, limits) for name, (ledger, limits) in found.ledgers.items()}
    return {"summary": found.summary, "nodes": nodes, "reconciled": found.reconciled}


def rehearsal_tables(content: dict[str, Any]) -> list[Any]:
    table = Table(title="What each node put down in its own ledger", title_justify="left")
    for column in ("node", "runs", "releases", *(f"ε {view}" for view in VIEWS)):
        table.add_column(column, justify="left" if column == "node" else "right")
    for name, own in content["nodes"].items():
        releases = sum(row["releases"] for row in own["runs"])
        epsilon = [own["lifetime_epsilon"][view] for view in VIEWS]
        table.add_row(name, str(len(own["runs"])), str(releases), *map(_figure, epsilon))
    agreed = f"The server's ledger and those of all {len(content['reconciled'])} nodes agree."
    return [summary_table([content["summary"]]), table, agreed]


def _figure(epsilon: float) -> str:
    return "∞" if math.isinf(epsilon) else f"{epsilon:.4g}"
