"""Commands that attack from outside: audit."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

import typer

from sordino.cli.application import AsJson, Overrides, app
from sordino.cli.output import show_value
from sordino.core import SordinoError
from sordino.startup import quick_imports

BEATEN = 1
"""The exit code where an audit proves more than the ledger claims."""
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}

Target = Annotated[
    Path | None,
    typer.Argument(metavar="FILE|DIR", help="An experiment file (TOML), or the folder of a run.", show_default=False),
]


@app.command()
def audit(
    target: Target = None,
    overrides: Overrides = None,
    view: Annotated[
        list[str] | None, typer.Option("--view", help="Whose eyes: public, server or client; default all three.")
    ] = None,
    budget: Annotated[str, typer.Option("--budget", metavar="TIME", help="How long canaries run: 30s, 5m, 1h.")] = "1m",
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Default audits/NAME, or the run's own folder.")
    ] = None,
    publish: Annotated[
        bool, typer.Option("--publish", help="Put the verdict into the release of a secure run, too.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Hold the ledger's ε against what canaries in real rounds prove from outside; exit code 1 where they prove more."""
    seconds = read_seconds(budget)
    if target is None:
        raise SordinoError("An audit needs an experiment file or the folder of a run, but got neither; name one.")
    with quick_imports():
        from sordino.audit.auditing import audit_experiment
        from sordino.audit.record import AUDIT, publish_audit, write_found
        from sordino.audit.target import read_target
        from sordino.report.audit_progress import watching_stages
        from sordino.report.audit_table import audit_report
        from sordino.report.comparison.runs import read_view

    found = read_target(target, tuple(overrides or ()))
    views = tuple(read_view(one) for one in view or ("public", "server", "client"))
    with watching_stages(quiet=as_json) as progress:
        result = audit_experiment(
            found.experiment,
            views=views,
            budget_seconds=seconds,
            folder=found.folder,
            settled=found.settled,
            progress=progress,
        )
    content: dict[str, Any] = result.to_json()
    write_found(out or found.place("audits"), AUDIT, content)
    if publish:
        publish_audit(target, content)
    show_value(content, as_json, lambda: audit_report(content))
    if not result.holds:
        raise typer.Exit(BEATEN)


def read_seconds(text: str) -> float:
    """A time such as 90s, 5m or 1h, in seconds."""
    matched = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh]?)", text.strip())
    if matched is None or float(matched[1]) <= 0:
        raise SordinoError(f"--budget takes a time such as 30s, 5m or 1h, but got {text!r}.")
    return float(matched[1]) * _UNITS[matched[2] or "s"]
