"""Our engine on made-up data: a federation of as many clients as asked for, ready to do rounds."""

from __future__ import annotations

import dataclasses
import gc
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from sordino.core import Private
from sordino.data.examples import Examples
from sordino.engine.client.runtime import ClientRuntime
from sordino.engine.federation import FederationServer
from sordino.engine.pricing import make_tariff
from sordino.engine.resolved import resolve
from sordino.engine.roster import Roster
from sordino.engine.simulate.allocator import tune_allocator
from sordino.engine.simulate.schedule import ScheduleName, choose
from sordino.engine.simulate.transport import LocalTransport
from sordino.engine.simulate.workers import Workers
from sordino.experiment import experiment
from sordino.methods.dp_fedavg import DpFedAvg
from sordino.methods.method import State
from sordino.models import FlatSpace, Net
from sordino.privacy.door import ClientDoor, Door
from sordino.privacy.ledger import Ledger
from sordino.privacy.noise import SecureNoise

ROUNDS = 10_000
"""More than any benchmark does; nothing is priced, so the number does not matter."""


@dataclass
class RunningFederation:
    """A federation between two rounds: every client takes part, noise is central, the ledger is on disk."""

    method: DpFedAvg
    federation: FederationServer
    state: State
    schedule: ScheduleName
    folder: tempfile.TemporaryDirectory[str]
    """Holds the ledger, and goes with this object."""
    done: int = 0

    def do_round(self) -> None:
        self.state = self.method.round(self.done, self.state, self.federation)
        self.done += 1


def federate(
    net: Net,
    data: Callable[[int], Examples],
    *,
    clients: int,
    method: DpFedAvg,
    l2_clip_norm: float = 1.0,
    noise_multiplier: float = 1.0,
    schedule: ScheduleName | None = None,
) -> RunningFederation:
    """Everything a run would build, for a model and data that no file names."""
    tune_allocator()
    gc.freeze()  # as every command does after its imports
    everyones = [data(client) for client in range(clients)]
    sizes = [len(own) for own in everyones]
    table = experiment(
        {
            "rounds": ROUNDS,
            "data": {"source": "made up", "clients": clients},
            "model": {"name": "made up"},
            "method": {"name": "dp-fedavg"},
            "privacy": {"noise_multiplier": noise_multiplier, "clip_norm": l2_clip_norm, "sampler": "everyone"},
        }
    )
    resolved = dataclasses.replace(resolve(table), method=method)
    tariff = make_tariff(resolved, clients=clients, sizes=sizes)
    space = FlatSpace(net)
    workers = Workers(net, space, seed=0, device=torch.device("cpu"))
    start = space.read(net)
    if schedule is None:
        shape = tuple(everyones[0].inputs.shape[1:])
        schedule, _ = choose(net, workers, method.job, cohort=clients, rows=sizes[0], shape=shape, start=start)
    folder = tempfile.TemporaryDirectory(prefix="sordino-bench-")
    ledger = Ledger(clients=clients, delta=1e-5, neighbours="zero-out", path=Path(folder.name) / "ledger.jsonl")
    noise, roster = SecureNoise(), Roster(sizes=sizes)

    def runtime(client: int) -> ClientRuntime:
        own = Private(everyones[client])
        return ClientRuntime(client=client, rows=lambda: own, tariff=tariff, door=ClientDoor(noise))

    federation = FederationServer(
        roster=roster,
        space=space,
        tariff=tariff,
        door=Door(ledger, noise),
        transport=LocalTransport(runtime=runtime, roster=roster, workers=workers, schedule=schedule),
    )
    return RunningFederation(
        method=method, federation=federation, state={"model": start}, schedule=schedule, folder=folder
    )
