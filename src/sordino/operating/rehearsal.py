"""A plan held against a node's rows and limits, on the node's own machine, without a server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from sordino.core import VIEWS, SordinoError
from sordino.data.beside import relative_to
from sordino.engine.client.guard import OwnGuard
from sordino.engine.client.lifetime import LifetimeLedger
from sordino.engine.client.limits import Limits
from sordino.engine.flower.own_rows import OwnRows
from sordino.engine.resolved import Resolved, resolve
from sordino.engine.setup import make_parts
from sordino.experiment import Experiment, read
from sordino.operating.finding import Finding, checked
from sordino.privacy.accounting import spent
from sordino.privacy.pricing import neighbours_in
from sordino.tuning import Task

RUN = "preflight"


def plan_findings(file: Path, data: Path | None, *, limits: Limits, ledger: Path) -> Iterator[Finding]:
    """Whether rows fit the experiment's columns, and its price the node's limits. Code that is not allowed is not imported."""
    try:
        experiment = read(file)
        limits.check_parts(experiment.model_dump(mode="json"))
        with relative_to(file.resolve().parent):
            resolved = resolve(experiment)
    except SordinoError as error:
        yield Finding(what="plan", level="wrong", sentence=str(error))
        return
    if data is None:
        sentence = "No rows were given, so the plan was not held against them; add --data FILE."
        yield Finding(what="data", level="note", sentence=sentence)
        return
    try:
        rows = OwnRows.read(data, resolved)
    except SordinoError as error:
        yield Finding(what="data", level="wrong", sentence=str(error))
        return
    held_out = "" if rows.held_out is None else f", {len(rows.held_out)} held out"
    sentence = f"{data} has {len(rows.train)} rows to train on{held_out}, of the experiment's columns and classes."
    yield Finding(what="data", level="ok", sentence=sentence)
    yield checked("plan", lambda: _price(resolved, rows, experiment, limits, ledger))


def _price(resolved: Resolved, rows: OwnRows, experiment: Experiment, limits: Limits, ledger: Path) -> str:
    """What the plan would cost this node, if all nodes had as many rows; raises where its limits do not allow it."""
    source = rows.source
    parts = make_parts(
        resolved,
        task=Task(shape=source.shape, classes=source.classes),
        vocabulary=source.vocabulary,
        sizes=[len(rows.train)] * max(1, experiment.data.clients),
    )
    own = LifetimeLedger(ledger, readonly=True)
    guard = OwnGuard(
        client=0,
        limits=limits,
        ledger=own,
        run=RUN,
        repeatable=False,
        experiment=experiment,
        tariff=parts.tariff,
    )
    bills = guard.check()
    privacy = experiment.privacy
    figures = []
    for view in VIEWS:
        run = spent(bills[view], delta=privacy.delta, neighbours=neighbours_in(view, privacy.neighbours)).epsilon
        life = own.epsilon(view, delta=limits.lifetime_delta, besides=guard.agreement, bill=bills[view])
        figures.append(f"{view} {run:.4g} ({life:.4g} over its life)")
    return (
        f"Within this node's limits: ε {', '.join(figures)} at δ = {privacy.delta:g}, hiding one {parts.tariff.unit}."
    )
