"""Where the clients of a run are, by the name of the engine."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from torch import Tensor

from sordino.core import SordinoError
from sordino.engine.dealing import Federated, federate
from sordino.engine.resolved import Resolved
from sordino.engine.setup import Setup
from sordino.engine.simulate.schedule import ScheduleName
from sordino.engine.simulate.simulator import Simulator, settle_schedule
from sordino.engine.transport import Transport
from sordino.methods.method import State


class Engine(Protocol):
    """The clients of one run, wherever they are."""

    @property
    def transport(self) -> Transport: ...

    @property
    def zeroed(self) -> int:
        """Contributions that were not finite: a number that is not private, for simulations."""
        ...

    def enter(self, setup: Setup) -> None:
        """Go on in another phase."""
        ...

    def figures(self, number: int, state: State) -> dict[str, Any]:
        """How each client does with its own model: a diagnostic outside every guarantee, for simulations."""
        ...

    def keep(self, path: Path) -> None:
        """Have clients write down what they keep, under this name."""
        ...

    def recall(self, path: Path) -> None: ...

    def close(self) -> None: ...


def gather(resolved: Resolved, settled: Mapping[str, Any] | None) -> Federated:
    """Who holds which rows: dealt out here, or declared by nodes that keep theirs; a run that goes on has that `settled`."""
    if resolved.experiment.engine.name == "flower":
        needs_flower()
        from sordino.engine.flower.meeting import meet_nodes

        return meet_nodes(resolved, settled or {})
    return federate(resolved)


def needs_flower() -> None:
    """Say what to install where Flower is missing."""
    if importlib.util.find_spec("flwr") is None:
        raise SordinoError("Real nodes need Flower, which is not installed here; use `pip install sordino[flower]`.")


def settle(setup: Setup, start: Tensor) -> dict[str, Any]:
    """How clients' work is done, decided once when a run first begins."""
    if setup.experiment.engine.name != "simulate":
        return {"schedule": "workers", "trial_seconds": {}}
    return settle_schedule(setup, start)


def make_engine(setup: Setup, *, schedule: ScheduleName, folder: Path, run: str) -> Engine:
    """`folder` is for what clients keep; `run` is the ledger's name for the run."""
    if setup.experiment.engine.name == "process":
        from sordino.engine.process.processes import Processes

        return Processes(setup, folder=folder, run=run)
    if setup.experiment.engine.name == "flower":
        from sordino.engine.flower.nodes import Nodes

        return Nodes(setup, run=run)
    return Simulator(setup, schedule=schedule)
