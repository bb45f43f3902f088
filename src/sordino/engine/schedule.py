"""How the cohort's work is done: on single-thread workers, or all small models stacked into one.

Workers give the same bits however many there are. Stacking adds floats in another order, so it agrees with workers to
float32 tolerance only; which of the two was used is part of the run record, and a resumed run uses it again.

Stacking replaces the clients' own code by one loop over all of them, so only jobs that say how they are stacked are, on
chains of plain dense layers. Any other job that a stacked run meets is done on workers.
"""

from __future__ import annotations

import copy
import dataclasses
import math
import os
import queue
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from operator import itemgetter
from typing import Literal, TypeVar

import torch
from torch import Tensor

from sordino.core import Private, SordinoError
from sordino.data.examples import IDENTITY, Examples
from sordino.engine.stacked import dense_layers, run_stacked
from sordino.kernels import fastest
from sordino.methods.local_sgd import LocalSgd
from sordino.methods.method import ClientContext, ClientJob, PersonalJob
from sordino.models import FlatSpace, Net
from sordino.models.state import Unmoved

T = TypeVar("T")
ScheduleName = Literal["workers", "stacked"]

TRIALS, CLEAR = 4, 1.5
"""Times that each schedule is tried; the best counts, because a busy moment can only slow it down. After two, a clear lead is enough."""

STACK_LIMIT = 128
"""Models stacked at once: beyond this, more of them no longer saves time and only takes memory."""


@dataclass(frozen=True, kw_only=True)
class Task:
    """One client's turn."""

    client: int
    round: int
    size: int
    start: Tensor
    data: Private[Examples]


class Workers:
    """Threads of one compute thread each, every one with a model of its own to work in."""

    def __init__(self, net: Net, space: FlatSpace, *, seed: int, device: torch.device, workers: int = 0) -> None:
        self._count = workers or (1 if device.type != "cpu" else os.cpu_count() or 1)
        self._space, self._seed, self._device = space, seed, device
        self.stackable = dense_layers(net) is not None
        """Whether the model is one that can be stacked."""
        self._nets: queue.SimpleQueue[Net] = queue.SimpleQueue()
        for _ in range(self._count):
            self._nets.put(fastest(copy.deepcopy(net)))
        self._unmoved = Unmoved(net)
        self._pool = ThreadPoolExecutor(self._count, initializer=torch.set_num_threads, initargs=(1,))

    def context(self, net: Net, task: Task) -> ClientContext:
        return ClientContext(
            net=net,
            space=self._space,
            client=task.client,
            round=task.round,
            size=task.size,
            seed=self._seed,
            device=self._device,
        )

    def each(self, tasks: Sequence[Task], work: Callable[[Task, ClientContext], T]) -> list[T]:
        """Do `work` for every task. A lone task gets the caller's thread and all of its cores."""

        def one(task: Task) -> T:
            net = self._nets.get()
            try:
                done = work(task, self.context(net, task))
                self._unmoved.check(net)
                return done
            finally:
                self._nets.put(net)

        return [one(tasks[0])] if len(tasks) == 1 else list(self._pool.map(one, tasks))

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)


def run_jobs(schedule: ScheduleName, workers: Workers, tasks: Sequence[Task], job: ClientJob) -> list[Private[Tensor]]:
    """Every client's update, still private, in the order of `tasks`."""
    plain = stacked_job(job) if schedule == "stacked" and workers.stackable else None
    if plain is not None:
        return [
            update
            for at in range(0, len(tasks), STACK_LIMIT)
            for update in _stacked(workers, tasks[at : at + STACK_LIMIT], plain)
        ]
    return workers.each(tasks, lambda task, context: task.data.map(lambda own: job.run(task.start, own, context)))


def stacked_job(job: object) -> LocalSgd | None:
    """The plain SGD by which a job says that it may be stacked; None where it says nothing, or something else."""
    says = getattr(job, "stacked", None)
    if isinstance(job, PersonalJob) or not callable(says):
        return None
    plain = says()
    return plain if type(plain) is LocalSgd else None


def refuse_unstackable(workers: Workers, job: object) -> None:
    """Where stacking was asked for by name, say why it cannot be done."""
    if not workers.stackable:
        raise SordinoError(
            "[engine] schedule = 'stacked' needs a model that is a plain chain of dense layers, but got another; "
            "set schedule = 'auto' or 'workers'."
        )
    if stacked_job(job) is None:
        raise SordinoError(
            f"[engine] schedule = 'stacked' needs client work that is plain SGD, but got that of {type(job).__name__}, which "
            "does not say how it is stacked; set schedule = 'auto' or 'workers'."
        )


def _stacked(workers: Workers, tasks: Sequence[Task], job: LocalSgd) -> list[Private[Tensor]]:
    def together(own: list[Examples]) -> list[Tensor]:
        def work(_: Task, context: ClientContext) -> list[Tensor]:
            contexts = [workers.context(context.net, task) for task in tasks]
            return run_stacked(job, [task.start for task in tasks], own, contexts)

        return workers.each(tasks[:1], work)[0]

    updates = Private.join(task.data for task in tasks).map(together)
    return [updates.map(itemgetter(k)) for k in range(len(tasks))]


def choose(
    net: Net, workers: Workers, job: object, *, cohort: int, rows: int, shape: tuple[int, ...], start: Tensor
) -> tuple[ScheduleName, dict[str, float]]:
    """Time a few steps of each schedule on made-up data of the right shape, and take the faster."""
    plain = stacked_job(job)
    if plain is None or dense_layers(net) is None:
        return "workers", {}
    trial = dataclasses.replace(plain, epochs=1)
    count, size = min(max(cohort, 1), 32), min(max(rows, 1), 2 * plain.batch_size)
    public = Examples(
        inputs=torch.rand(size, math.prod(shape)), labels=torch.zeros(size, dtype=torch.int64), normalisation=IDENTITY
    )
    tasks = [Task(client=k, round=0, size=size, start=start, data=Private(public)) for k in range(count)]
    seconds: dict[str, float] = {"stacked": math.inf, "workers": math.inf}
    for trial_number in range(TRIALS):
        if trial_number >= 2 and max(seconds.values()) > CLEAR * min(seconds.values()):
            break
        for name, best in list(seconds.items()):
            begin = time.perf_counter()
            run_jobs("stacked" if name == "stacked" else "workers", workers, tasks, trial)
            seconds[name] = min(best, time.perf_counter() - begin)
    return ("stacked" if seconds["stacked"] <= seconds["workers"] else "workers"), seconds
