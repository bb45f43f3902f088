"""All clients of a run in this process: their rows, their workers, and what they keep."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

from torch import Tensor

from sordino.engine.client.personal_store import PersonalStore
from sordino.engine.client.runtime import ClientRuntime
from sordino.engine.noise_sources import client_noise
from sordino.engine.setup import Setup
from sordino.engine.simulate.client_tests import client_figures
from sordino.engine.simulate.dropping import Dropping
from sordino.engine.simulate.schedule import ScheduleName, choose, refuse_unstackable
from sordino.engine.simulate.transport import LocalTransport
from sordino.methods.method import State
from sordino.privacy.door import ClientDoor


class Simulator:
    """Answers requests on this machine. It is made for one phase of a run, and entered anew for the next."""

    def __init__(self, setup: Setup, *, schedule: ScheduleName = "workers") -> None:
        self._noise = client_noise(setup.experiment)
        self._schedule: ScheduleName = schedule
        self._zeroed = 0
        self._begin(setup)

    def _begin(self, setup: Setup) -> None:
        self._setup = setup
        self._workers = setup.make_workers()
        self._personal = _personal_store(setup)
        self.transport = LocalTransport(
            runtime=self._runtime,
            roster=setup.federated.roster,
            workers=self._workers,
            schedule=self._schedule,
            dropping=Dropping(setup.experiment.clients, setup.experiment.seed),
        )

    def enter(self, setup: Setup) -> None:
        """Go on in another phase; what clients kept belongs to the old coordinates."""
        self._zeroed = self.zeroed
        self.close()
        self._begin(setup)

    @property
    def zeroed(self) -> int:
        """Contributions that were not finite: a number that is not private, for simulations."""
        return self._zeroed + self.transport.zeroed

    def figures(self, number: int, state: State) -> dict[str, Any]:
        """How each client does in its own mix of labels: a diagnostic outside every guarantee."""
        return client_figures(self._setup, self._workers, number, state, self._personal)

    def keep(self, path: Path) -> None:
        """Write what clients keep."""
        if self._personal is not None:
            self._personal.save(path)

    def recall(self, path: Path) -> None:
        """Read what clients kept."""
        if self._personal is not None:
            self._personal.load(path)

    def close(self) -> None:
        self._workers.close()

    def _runtime(self, client: int) -> ClientRuntime:
        federated = self._setup.federated
        return ClientRuntime(
            client=client,
            rows=lambda: federated.client(client),
            held_out=lambda: federated.held_out_of(client),
            tariff=self._setup.tariff,
            door=ClientDoor(self._noise(client)),
            personal=self._personal,
            anchors=self._setup.anchors,
        )


def settle_schedule(setup: Setup, start: Tensor) -> dict[str, Any]:
    """How clients' work is done, decided once when a run first begins; a resumed run reads it from the record."""
    asked = setup.experiment.engine.schedule
    if asked == "stacked":
        refuse_unstackable(setup.net, setup.method.job)
    if asked != "auto" or len(setup.phases) > 1:
        return {"schedule": "workers" if asked == "auto" else asked, "trial_seconds": {}}
    sizes = setup.federated.sizes
    with closing(setup.make_workers()) as workers:
        name, seconds = choose(
            setup.net,
            workers,
            setup.method.job,
            cohort=round(setup.tariff.sampler.expected_cohort),
            rows=sum(sizes) // len(sizes),
            shape=setup.federated.source.shape,
            start=start,
        )
    return {"schedule": name, "trial_seconds": seconds}


def _personal_store(setup: Setup) -> PersonalStore | None:
    if not setup.method.keeps_state:
        return None
    first = setup.method.first_personal(setup.net).to(setup.device)
    return PersonalStore(clients=setup.federated.partition.clients, first=first)
