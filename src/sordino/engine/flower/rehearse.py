"""From one experiment file to a real federation on this machine and back: its summary, and each node's own ledger."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sordino.core import SordinoError
from sordino.data.beside import relative_to
from sordino.engine.client.lifetime import LifetimeLedger
from sordino.engine.client.limits import Limits, read_limits
from sordino.engine.flower.dealt_files import deal_out
from sordino.engine.flower.local import LocalFederation
from sordino.engine.moment import Moment, Watcher
from sordino.engine.reconcile import reconcile
from sordino.engine.run import run_experiment
from sordino.experiment import Experiment
from sordino.outside import look_beside

FEDERATION, DATA, RUN = "federation", "data", "run"


@dataclass(frozen=True, kw_only=True)
class Rehearsed:
    """What a rehearsal leaves behind."""

    summary: dict[str, Any]
    ledgers: dict[str, tuple[LifetimeLedger, Limits]]
    """By node, what it put down by itself, and what its operator allows."""
    reconciled: list[dict[str, Any]]
    """Each node's ledger beside the server's: both tell the same."""


def rehearse(
    experiment: Experiment, out: Path, *, nodes: int | None, folder: Path, watch: Watcher = lambda moment: None
) -> Rehearsed:
    """Deal out the rows, start SuperLink and nodes, run, and stop everything.

    Args:
        experiment: as for `simulate`; its data set is here, and is dealt out to the nodes' files.
        out: takes the run record as `run`, with `federation` (keys, kits, logs, nodes' states) and `data` beside it.
        nodes: how many; None means as many as the experiment has clients.
        folder: where the experiment's own files are.
        watch: is told what happens.
    """
    federation = (out / FEDERATION).resolve()
    if federation.exists():
        raise SordinoError(f"{out} holds a federation already; choose another --out folder.")
    watch(Moment("starting", 0, 3))
    look_beside(folder)
    with relative_to(folder):
        dealt = deal_out(experiment, nodes=nodes, federation=federation, folder=(out / DATA).resolve())
    watch(Moment("starting", 1, 3))
    seeded = dealt.experiment.privacy.noise_source == "seeded"
    with LocalFederation.new(federation, dealt.files, rehearsal=seeded) as local:
        watch(Moment("starting", 3, 3))
        record = out / RUN
        summary = run_experiment(dealt.experiment, record, folder=folder, watch=watch)
        states = {name: local.state(name) for name in dealt.files}
    limits = {name: read_limits(local.provision.kit(name) / "limits.toml") for name in states}
    ledgers = {name: LifetimeLedger(state / "ledger.jsonl", readonly=True) for name, state in states.items()}
    return Rehearsed(
        summary=summary,
        ledgers={name: (ledger, limits[name]) for name, ledger in ledgers.items()},
        reconciled=[reconcile(record / "ledger.jsonl", ledger.path) for ledger in ledgers.values()],
    )
