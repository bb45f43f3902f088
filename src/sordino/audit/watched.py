"""A real federation with an onlooker at its doors, who sees what leaves and nothing else."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from torch import Tensor

from sordino.core import Bounded, Private, Released
from sordino.data.examples import Examples
from sordino.engine.building import shared_space
from sordino.engine.client.personal_store import PersonalStore
from sordino.engine.client.runtime import ClientRuntime
from sordino.engine.federation import FederationServer
from sordino.engine.pricing import make_tariff
from sordino.engine.resolved import resolve
from sordino.engine.roster import Roster
from sordino.engine.simulate.transport import LocalTransport
from sordino.engine.simulate.workers import Workers
from sordino.experiment import Experiment
from sordino.methods.method import Method
from sordino.models import FlatSpace, Net, build
from sordino.privacy.door import ClientDoor, Door, Permit
from sordino.privacy.grant import Grant
from sordino.privacy.ledger import Ledger
from sordino.privacy.mechanisms import UPDATE, Mechanism
from sordino.privacy.noise import NoiseSource, SeededNoise
from sordino.privacy.streams import stream_id

Onlooker = Callable[[Grant, str, Tensor], None]
"""Is shown the grant, which part of the batch was released, and the released value."""


class _WatchedPermit(Permit):
    def __init__(self, grant: Grant, mechanism: Mechanism, door: ClientDoor, watch: Onlooker) -> None:
        super().__init__(grant, mechanism, door)
        self._watch = watch

    def release(self, value: Bounded, part: str = UPDATE) -> Released[Tensor]:
        return self._show(super().release(value, part), part)

    def release_on_support(self, value: Bounded, support: Private[Tensor]) -> Released[Tensor]:
        return self._show(super().release_on_support(value, support), UPDATE)

    def _show(self, released: Released[Tensor], part: str) -> Released[Tensor]:
        self._watch(self.grant, part, released.value)
        return released


class WatchedDoor(Door):
    """The server's door, with an onlooker before it."""

    def __init__(self, ledger: Ledger, source: NoiseSource, watch: Onlooker) -> None:
        super().__init__(ledger, source)
        self._watch = watch

    def permit(self, grant: Grant, mechanism: Mechanism) -> Permit:
        return _WatchedPermit(grant, mechanism, self, self._watch)


class WatchedClientDoor(ClientDoor):
    """A client's door, with an onlooker before it."""

    def __init__(self, source: NoiseSource, watch: Onlooker) -> None:
        super().__init__(source)
        self._watch = watch

    def permit(self, grant: Grant, mechanism: Mechanism) -> Permit:
        return _WatchedPermit(grant, mechanism, self, self._watch)


@contextmanager
def watched_federation(
    experiment: Experiment,
    method: Method,
    rows: list[Private[Examples]],
    *,
    sizes: list[int],
    features: int,
    watch: Onlooker,
    source: Callable[[int], NoiseSource] | None = None,
    anchors: Examples | None = None,
    net: Net | None = None,
) -> Iterator[FederationServer]:
    """One client for each of `rows`, priced by the experiment; clients share `net`, or else a logistic model without bias.

    Noise comes from `source`, by client (-1 is the server), or else from the experiment's seed. No budget holds: the ledger
    counts, and refuses nothing.
    """
    resolved = dataclasses.replace(resolve(experiment), method=method)
    privacy, device = resolved.privacy, resolved.device
    tariff = make_tariff(resolved, clients=len(rows), sizes=sizes)
    ledger = Ledger(clients=len(rows), delta=privacy.delta, neighbours=privacy.neighbours)
    net = (net or build("logistic", shape=(features,), classes=2, seed=experiment.seed, bias=False)).to(device)
    space = shared_space(resolved, net, FlatSpace(net).names)
    noise = source or (lambda client: SeededNoise(stream_id("audit noise", experiment.seed, client)))
    personal = PersonalStore(clients=len(rows), first=method.first_personal(net)) if method.keeps_state else None
    workers = Workers(net, space, seed=experiment.seed, device=device, workers=1)

    def runtime(client: int) -> ClientRuntime:
        return ClientRuntime(
            client=client,
            rows=lambda: rows[client],
            tariff=tariff,
            door=WatchedClientDoor(noise(client), watch),
            personal=personal,
            anchors=anchors,
        )

    roster = Roster(sizes=sizes)
    try:
        yield FederationServer(
            roster=roster,
            space=space,
            tariff=tariff,
            door=WatchedDoor(ledger, noise(-1), watch),
            transport=LocalTransport(runtime=runtime, roster=roster, workers=workers),
            keeps_state=method.keeps_state,
        )
    finally:
        workers.close()
