"""A node's own ledger, and whether it agrees with a server's, as JSON and as tables."""

from __future__ import annotations

import math
from typing import Any

from rich.table import Table
from rich.text import Text

from sordino.core import VIEWS
from sordino.engine.client.lifetime import LifetimeLedger
from sordino.engine.client.limits import Limits
from sordino.privacy.accounting import spent
from sordino.privacy.pricing import neighbours_in


def ledger_content(own: LifetimeLedger, limits: Limits) -> dict[str, Any]:
    """Every run that a node agreed to, what each costs it as planned, and ε over its life beside its limits."""
    runs = []
    for run, agreed in own.agreements.items():
        epsilon = {
            view: spent(
                own.total(view, runs=[run]), delta=agreed.delta, neighbours=neighbours_in(view, agreed.neighbours)
            ).epsilon
            for view in VIEWS
        }
        released = own.releases[run]
        runs.append(
            {
                "run": run,
                "name": agreed.about,
                "server": agreed.server,
                "plan": agreed.plan,
                "unit": agreed.unit,
                "delta": agreed.delta,
                "releases": len(released),
                "last": released[-1].time if released else None,
                "epsilon": epsilon,
            }
        )
    lifetime = {view: own.epsilon(view, delta=limits.lifetime_delta) for view in VIEWS}
    deltas = [agreed.delta for agreed in own.agreements.values()]
    return {
        "ledger": str(own.path),
        "head": own.head,
        "runs": runs,
        "delta": limits.lifetime_delta or min(deltas, default=None),
        "lifetime_epsilon": lifetime,
        "lifetime_limit": {view: limits.lifetime_epsilon.get(view) for view in VIEWS},
    }


def ledger_table(content: dict[str, Any]) -> list[Any]:
    table = Table(title="Runs that this node agreed to", title_justify="left")
    for column in ("run", "server", "hides", "releases", *(f"ε {view}" for view in VIEWS)):
        table.add_column(column, overflow="fold", justify="left" if column in ("run", "server", "hides") else "right")
    for row in content["runs"]:
        figures = [_figure(row["epsilon"][view]) for view in VIEWS]
        hides = f"one {row['unit']}, δ {row['delta']:g}"
        table.add_row(
            Text(f"{row['name']} {row['run'][:8]}"), Text(row["server"]), hides, str(row["releases"]), *figures
        )
    table.add_section()
    delta = f"δ {content['delta']:g}" if content["delta"] is not None else ""
    lifetime = [_figure(content["lifetime_epsilon"][view]) for view in VIEWS]
    table.add_row("over its life", "all", delta, "", *lifetime, style="bold")
    limit = [_figure(content["lifetime_limit"][view]) for view in VIEWS]
    table.add_row("its limit", "", "", "", *limit)
    return [table, f"Ledger {content['ledger']}, head {content['head'] or 'none'}"]


def reconciled_table(found: list[dict[str, Any]]) -> list[Any]:
    table = Table(title="Both ledgers agree", title_justify="left")
    for column in ("client", "releases", "empty turns", *(f"ε {view}: server's, own" for view in VIEWS)):
        table.add_column(column, justify="right")
    for row in found:
        figures = [
            f"{_figure(row['epsilon'][view]['server'])}, {_figure(row['epsilon'][view]['client'])}" for view in VIEWS
        ]
        table.add_row(str(row["client"]), str(row["releases"]), str(row["empty_turns"]), *figures)
    return [table, f"Server's ledger of run {found[0]['run'][:8]}…, head {found[0]['server_head']}"]


def _figure(epsilon: float | None) -> str:
    if epsilon is None:
        return "–"
    return "∞" if math.isinf(epsilon) else f"{epsilon:.4g}"
