"""The ledger of a run: bound to what the run was begun with, and taken up again where its checkpoint stands."""

from __future__ import annotations

from typing import Any

from sordino.engine.record import Checkpoint, RunRecord, facts_digest
from sordino.engine.setup import Setup
from sordino.engine.tariff import budget_of
from sordino.privacy.ledger import Ledger


def make_ledger(setup: Setup, record: RunRecord, facts: dict[str, Any], data_digest: str) -> Ledger:
    """The run's ledger, bound to its settings, to the data at hand and to what was settled."""
    privacy = setup.experiment.privacy
    budget = budget_of(privacy) if setup.tariff.protected else None
    bills = setup.tariff.worst_bills(privacy.view).values() if budget else ()
    return Ledger(
        clients=setup.federated.partition.clients,
        delta=privacy.delta,
        neighbours=privacy.neighbours,
        budget=budget,
        path=record.ledger,
        planned=bills,
        about={
            "settings_fingerprint": setup.experiment.fingerprint(),
            "data_digest": data_digest,
            "facts_digest": facts_digest(facts),
        },
    )


def reopen(ledger: Ledger, checkpoint: Checkpoint | None, *, replay: bool) -> None:
    """Go on with a ledger on disk: lines after the checkpoint stay charged, and a replayed round must charge the same."""
    if checkpoint is None:
        ledger.open(keep=0, replay=replay)
    else:
        ledger.open(keep=checkpoint.ledger_lines, replay=replay, head=checkpoint.ledger_head)
