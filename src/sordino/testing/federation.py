"""A real federation whose uploads can be looked at: the one file here that knows how the engine is put together."""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

import torch
from torch import Tensor

from sordino.core import Bounded, Private, Released
from sordino.data.examples import Examples
from sordino.engine.federation import SimulatedFederation
from sordino.engine.personal_store import PersonalStore
from sordino.engine.schedule import ScheduleName, Task, Workers
from sordino.engine.setup import Setup
from sordino.methods.method import ClientContext
from sordino.methods.personal import Personalised
from sordino.privacy.door import Door, Permit
from sordino.privacy.ledger import Ledger, Line
from sordino.privacy.mechanisms import UPDATE
from sordino.privacy.noise import Device, SeededNoise
from sordino.testing.broken import demand

T = TypeVar("T")


@dataclass(frozen=True)
class Sent:
    """One value that a client gave the door, in which round and as which part of a release."""

    round: int
    part: str
    value: Tensor


@dataclass
class Seen:
    """What every client gave the door, how many units were in it, and the ledger that paid for it."""

    ledger: Ledger
    uploads: dict[int, list[Sent]] = field(default_factory=lambda: defaultdict(list))
    units: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))


@contextmanager
def seen_federation(
    setup: Setup, *, schedule: ScheduleName, changed: int | None = None, backwards: bool = False
) -> Iterator[tuple[SimulatedFederation, Seen]]:
    """The federation of a run, charged as usual, whose noise is zero so that uploads can be compared bit for bit.

    Args:
        changed: a client that has other rows than its own, as many as before.
        backwards: whether clients work in the opposite order.
    """
    privacy, sizes = setup.experiment.privacy, setup.federated.sizes
    workers = _OrderedWorkers(setup.net, setup.space, seed=5, device=setup.device, workers=1)
    workers.backwards = backwards
    seen = Seen(Ledger(clients=len(sizes), delta=privacy.delta, neighbours=privacy.neighbours))

    def rows(client: int) -> Private[Examples]:
        own = setup.federated.client(client)
        return own.map(other_rows) if client == changed else own

    try:
        yield (
            SimulatedFederation(
                sizes=sizes,
                expected_cohort=setup.tariff.sampler.expected_cohort,
                space=setup.space,
                data=rows,
                tariff=setup.tariff,
                door=_SeeingDoor(seen),
                workers=workers,
                schedule=schedule,
                anchors=setup.anchors,
                personal=_personal_store(setup),
            ),
            seen,
        )
    finally:
        workers.close()


def _personal_store(setup: Setup) -> PersonalStore | None:
    if not isinstance(setup.method, Personalised) or not setup.method.keeps_state:
        return None
    return PersonalStore(clients=len(setup.federated.sizes), first=setup.method.first_personal(setup.net))


def other_rows(own: Examples) -> Examples:
    """As many rows, and nothing else in common."""
    return dataclasses.replace(own, inputs=own.inputs.max() - own.inputs.flip(-1), labels=own.labels.flip(0))


class _OrderedWorkers(Workers):
    """One worker that takes the clients of a round forwards or backwards; what it leaves behind meets the next client."""

    backwards = False

    def each(self, tasks: Sequence[Task], work: Callable[[Task, ClientContext], T]) -> list[T]:
        if not self.backwards:
            return super().each(tasks, work)
        return super().each(tasks[::-1], work)[::-1]


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


class _SeeingDoor(Door):
    def __init__(self, seen: Seen) -> None:
        super().__init__(seen.ledger, _Silence(5))
        self._seen = seen
        self._next: Counter[str] = Counter()

    def open(self, line: Line) -> Permit:
        self._next.clear()
        return _SeeingPermit(line, self.ledger.charge(line), self)

    def see(self, line: Line, units: int, value: Tensor, part: str) -> None:
        """Lines of one client are its own throughout; in a line for several, each has its release in turn."""
        demand(line.owner != "server", "A sum of all clients shows no single one; check with noise = 'local'.")
        client = line.participants[self._next[part] if len(line.participants) > 1 else 0]
        self._next[part] += 1
        self._seen.uploads[client].append(Sent(line.round, part, value.clone()))
        self._seen.units[client].append(units)


class _SeeingPermit(Permit):
    _door: _SeeingDoor

    def release(self, value: Bounded, part: str = UPDATE) -> Released[Tensor]:
        return self._shown(super().release(value, part), value.units, part)

    def release_on_support(self, value: Bounded, support: Private[Tensor]) -> Released[Tensor]:
        return self._shown(super().release_on_support(value, support), value.units, UPDATE)

    def _shown(self, released: Released[Tensor], units: int, part: str) -> Released[Tensor]:
        self._door.see(self._line, units, released.value, part)
        return released
