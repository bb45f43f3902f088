"""Threads of one compute thread each: clients' work, one client after the other on each. The number of threads changes no bit."""

from __future__ import annotations

import copy
import queue
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import torch

from sordino.cores import free_cores
from sordino.kernels import fastest
from sordino.methods.context import ClientContext
from sordino.models import FlatSpace, Net
from sordino.models.state import Unmoved
from sordino.threads import compute_threads, threads_of

T = TypeVar("T")
U = TypeVar("U")


@dataclass(frozen=True, kw_only=True)
class Place:
    """Whose turn it is, when, and on how many rows."""

    client: int
    round: int
    size: int


class Workers:
    """Every thread has a model of its own to work in."""

    def __init__(self, net: Net, space: FlatSpace, *, seed: int, device: torch.device, workers: int = 0) -> None:
        self._threads = threads_of(workers)
        self._count = workers or (1 if device.type != "cpu" else free_cores())
        self._space, self._seed, self._device = space, seed, device
        self._nets: queue.SimpleQueue[Net] = queue.SimpleQueue()
        for _ in range(self._count):
            self._nets.put(fastest(copy.deepcopy(net)))
        self._unmoved = Unmoved(net)
        self._pool = ThreadPoolExecutor(self._count, initializer=torch.set_num_threads, initargs=(1,))

    def context(self, net: Net, place: Place) -> ClientContext:
        return ClientContext(
            net=net,
            space=self._space,
            client=place.client,
            round=place.round,
            size=place.size,
            seed=self._seed,
            device=self._device,
        )

    def each(self, places: Sequence[Place], work: Callable[[int, ClientContext], T]) -> list[T]:
        """Do `work` at every place, by its number. A lone one gets the caller's thread, and as many of its cores as there are workers.

        On more cores torch adds up in another order, so what a lone one computes depends on how many workers were asked for, or on the
        cores where nothing was said. Everyone gets the caller's thread where the only worker would have no core besides it: the bits
        are the same, and handing over to it would take longer than many a turn.
        """

        def one(number: int) -> T:
            net = self._nets.get()
            try:
                done = work(number, self.context(net, places[number]))
                self._unmoved.check(net)
                return done
            finally:
                self._nets.put(net)

        numbers = range(len(places))
        if len(places) > 1 and not self._no_other_core:
            return list(self._pool.map(one, numbers))
        with compute_threads(self._threads):
            return [one(number) for number in numbers]

    def map(self, function: Callable[[U], T], items: Sequence[U]) -> list[T]:
        """The same for work that needs no model; every thread takes a share of the items at once."""
        if self._no_other_core:
            return [function(one) for one in items]
        share = max(1, -(-len(items) // self._count))
        shares = [items[at : at + share] for at in range(0, len(items), share)]
        done = self._pool.map(lambda some: [function(one) for one in some], shares)
        return [result for part in done for result in part]

    @property
    def _no_other_core(self) -> bool:
        return self._count == 1 and torch.get_num_threads() == 1

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)
