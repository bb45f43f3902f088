"""What the process engine tells each client besides the plan: its own things, and its own rows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sordino.engine.hello import Beginning, enter_message
from sordino.engine.noise_sources import client_noise_seed
from sordino.engine.process.ownership import owned
from sordino.engine.setup import Setup
from sordino.engine.wire.message import Message


def begin_message(setup: Setup, client: int, *, run: str, folder: Path, limits: Mapping[str, Any]) -> Message:
    """The plan, and what lies with the client on a real node: its folder, its limits, and the seed of its noise."""
    seed = client_noise_seed(setup.experiment.seed, client) if setup.resolved.simulated else None
    return Beginning.of(setup, client, run=run).to_message(folder=str(folder), limits=dict(limits), noise_seed=seed)


def phase_message(setup: Setup, client: int) -> Message:
    """A phase begins, with this client's rows as the phase uses them."""
    federated = setup.federated
    rows = {"rows": owned(federated.client(client))}
    if federated.held_out is not None:
        rows["held_out"] = owned(federated.held_out_of(client))
    return enter_message(setup, setup.net, rows)
