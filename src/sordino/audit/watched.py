"""A real federation with an onlooker at its door, who sees what leaves and nothing else."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from torch import Tensor

from sordino.core import Bounded, Private, Released
from sordino.data.examples import Examples
from sordino.engine.federation import SimulatedFederation
from sordino.engine.personal_store import PersonalStore
from sordino.engine.schedule import Workers
from sordino.engine.setup import make_device, shared_space
from sordino.engine.tariff import make_tariff
from sordino.experiment import Experiment
from sordino.methods.method import Method
from sordino.methods.personal import Personalised
from sordino.models import FlatSpace, Net, build
from sordino.privacy.door import Door, Permit
from sordino.privacy.ledger import Ledger, Line
from sordino.privacy.mechanisms import UPDATE
from sordino.privacy.noise import NoiseSource, SeededNoise
from sordino.privacy.streams import stream_id

Onlooker = Callable[[Line, int, Tensor], None]
"""Is shown the ledger line, which of its releases this is, and the released value; for what else is released from the same
batch, the line is labelled by it."""


class WatchedDoor(Door):
    """The door, with an onlooker before it."""

    def __init__(self, ledger: Ledger, source: NoiseSource, watch: Onlooker) -> None:
        super().__init__(ledger, source)
        self._watch = watch

    def open(self, line: Line) -> Permit:
        number = self.ledger.charge(line)
        return _WatchedPermit(self.ledger.lines[number], number, self, self._watch)


class _WatchedPermit(Permit):
    def __init__(self, line: Line, number: int, door: Door, watch: Onlooker) -> None:
        super().__init__(line, number, door)
        self._watch = watch
        self._shown = 0

    def release(self, value: Bounded, part: str = UPDATE) -> Released[Tensor]:
        released = super().release(value, part)
        if part == UPDATE:
            return self._show(released)
        self._watch(dataclasses.replace(self._line, label=part), self._shown - 1, released.value)
        return released

    def release_on_support(self, value: Bounded, support: Private[Tensor]) -> Released[Tensor]:
        return self._show(super().release_on_support(value, support))

    def _show(self, released: Released[Tensor]) -> Released[Tensor]:
        self._watch(self._line, self._shown, released.value)
        self._shown += 1
        return released


@contextmanager
def watched_federation(
    experiment: Experiment,
    method: Method,
    rows: list[Private[Examples]],
    *,
    sizes: list[int],
    features: int,
    watch: Onlooker,
    source: NoiseSource | None = None,
    anchors: Examples | None = None,
    net: Net | None = None,
) -> Iterator[SimulatedFederation]:
    """One client for each of `rows`, priced by the experiment; clients share `net`, or else a logistic model without bias.

    Noise comes from `source`, or else from the experiment's seed. No budget holds: the ledger counts, and refuses nothing.
    """
    privacy, device = experiment.privacy, make_device(experiment.engine.device)
    tariff = make_tariff(experiment, method, clients=len(rows), sizes=sizes)
    ledger = Ledger(clients=len(rows), delta=privacy.delta, neighbours=privacy.neighbours)
    net = (net or build("logistic", shape=(features,), classes=2, seed=experiment.seed, bias=False)).to(device)
    space = shared_space(experiment, method, net, FlatSpace(net).names)
    first = method.first_personal(net) if isinstance(method, Personalised) else None
    workers = Workers(net, space, seed=experiment.seed, device=device, workers=1)
    noise = source or SeededNoise(stream_id("audit noise", experiment.seed))
    try:
        yield SimulatedFederation(
            sizes=sizes,
            expected_cohort=tariff.sampler.expected_cohort,
            space=space,
            data=rows.__getitem__,
            tariff=tariff,
            door=WatchedDoor(ledger, noise, watch),
            workers=workers,
            schedule="workers",
            anchors=anchors,
            personal=None if first is None else PersonalStore(clients=len(rows), first=first),
        )
    finally:
        workers.close()
