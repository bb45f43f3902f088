"""A real federation whose uploads can be looked at: the one file here that knows how the engine is put together."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

import torch
from torch import Tensor

from sordino.core import Bounded, Private, Released
from sordino.data.examples import Examples
from sordino.engine.client.personal_store import PersonalStore
from sordino.engine.client.runtime import ClientRuntime
from sordino.engine.federation import FederationServer
from sordino.engine.setup import Setup
from sordino.engine.simulate.schedule import ScheduleName
from sordino.engine.simulate.transport import LocalTransport
from sordino.engine.simulate.workers import Place, Workers
from sordino.methods.context import ClientContext
from sordino.privacy.door import ClientDoor, Door, Permit
from sordino.privacy.grant import Grant
from sordino.privacy.ledger import Ledger
from sordino.privacy.mechanisms import UPDATE, Mechanism
from sordino.privacy.noise import Device, SeededNoise
from sordino.privacy.streams import stream_id

T = TypeVar("T")


@dataclass(frozen=True)
class Sent:
    """One value that a client handed out, in which round and as which part of a release."""

    round: int
    part: str
    value: Tensor


@dataclass
class Seen:
    """What every client handed out, how many units were in it, and the ledger that paid for it."""

    ledger: Ledger
    uploads: dict[int, list[Sent]] = field(default_factory=lambda: defaultdict(list))
    units: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))


@contextmanager
def seen_federation(
    setup: Setup, *, schedule: ScheduleName, changed: int | None = None, backwards: bool = False
) -> Iterator[tuple[FederationServer, Seen]]:
    """The federation of a run, charged as usual, whose noise is zero so that uploads can be compared bit for bit.

    Args:
        changed: a client that has other rows than its own, as many as before.
        backwards: whether clients work in the opposite order.
    """
    privacy, roster = setup.experiment.privacy, setup.federated.roster
    ledger = Ledger(clients=len(roster.sizes), delta=privacy.delta, neighbours=privacy.neighbours)
    seen, workers = Seen(ledger), _OrderedWorkers(setup.net, setup.space, seed=5, device=setup.device, workers=1)
    workers.backwards = backwards
    personal = _personal_store(setup)

    def runtime(client: int) -> ClientRuntime:
        def rows() -> Private[Examples]:
            own = setup.federated.client(client)
            return own.map(other_rows) if client == changed else own

        door = _SeeingDoor(_Silence(stream_id("contract", client)), seen)
        return ClientRuntime(
            client=client, rows=rows, tariff=setup.tariff, door=door, personal=personal, anchors=setup.anchors
        )

    try:
        yield (
            FederationServer(
                roster=roster,
                space=setup.space,
                tariff=setup.tariff,
                door=Door(ledger, _Silence(5)),
                transport=LocalTransport(runtime=runtime, roster=roster, workers=workers, schedule=schedule),
                keeps_state=setup.method.keeps_state,
            ),
            seen,
        )
    finally:
        workers.close()


def other_rows(own: Examples) -> Examples:
    """As many rows, and nothing else in common."""
    return dataclasses.replace(own, inputs=own.inputs.max() - own.inputs.flip(-1), labels=own.labels.flip(0))


def _personal_store(setup: Setup) -> PersonalStore | None:
    if not setup.method.keeps_state:
        return None
    return PersonalStore(clients=len(setup.federated.sizes), first=setup.method.first_personal(setup.net))


class _OrderedWorkers(Workers):
    """One worker that takes the clients of a round forwards or backwards; what it leaves behind meets the next client."""

    backwards = False

    def each(self, places: Sequence[Place], work: Callable[[int, ClientContext], T]) -> list[T]:
        if not self.backwards:
            return super().each(places, work)
        last = len(places) - 1
        return super().each(places[::-1], lambda number, context: work(last - number, context))[::-1]


class _Silence(SeededNoise):
    """Coins as usual, and noise of zero: what is released is then what was bounded."""

    def gaussian(
        self, size: int, *, std: float, stream: int, device: Device = "cpu", dtype: torch.dtype = torch.float32
    ) -> Tensor:
        return torch.zeros(size, device=device, dtype=dtype)

    def laplace(
        self, size: int, *, scale: float, stream: int, device: Device = "cpu", dtype: torch.dtype = torch.float32
    ) -> Tensor:
        return torch.zeros(size, device=device, dtype=dtype)


class _SeeingDoor(ClientDoor):
    """A client's door, before which somebody notes what comes out."""

    def __init__(self, source: SeededNoise, seen: Seen) -> None:
        super().__init__(source)
        self._seen = seen

    def permit(self, grant: Grant, mechanism: Mechanism) -> Permit:
        return _SeeingPermit(grant, mechanism, self, self._seen)


class _SeeingPermit(Permit):
    def __init__(self, grant: Grant, mechanism: Mechanism, door: ClientDoor, seen: Seen) -> None:
        super().__init__(grant, mechanism, door)
        self._seen = seen

    def release(self, value: Bounded, part: str = UPDATE) -> Released[Tensor]:
        return self._noted(super().release(value, part), value.units, part)

    def release_on_support(self, value: Bounded, support: Private[Tensor]) -> Released[Tensor]:
        return self._noted(super().release_on_support(value, support), value.units, UPDATE)

    def _noted(self, released: Released[Tensor], units: int, part: str) -> Released[Tensor]:
        assert self.grant.client is not None
        self._seen.uploads[self.grant.client].append(Sent(self.grant.round, part, released.value.clone()))
        self._seen.units[self.grant.client].append(units)
        return released
