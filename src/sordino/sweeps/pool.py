"""Runs one after the other in this process, or side by side in processes of their own.

A run fails alone: what it raises becomes a sentence, and so does the death of its process. Side by side, each process has its
share of the cores; the number of workers changes no bit of a run. What a process has read of data files stays in its memory.
"""

from __future__ import annotations

import signal
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing import get_all_start_methods, get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import torch

from sordino.core import SordinoError
from sordino.cores import free_cores
from sordino.data.kept import keeping
from sordino.engine.moment import Moment, Watcher
from sordino.engine.run import run_experiment
from sordino.engine.simulate.allocator import hand_back
from sordino.engine.tariff import Multipliers
from sordino.experiment import Experiment
from sordino.sentences import first_line

if TYPE_CHECKING:
    from multiprocessing.context import ForkServerContext, SpawnContext

PRELOADED = ["sordino.sweeps.checks", "sordino.engine.simulate", "dp_accounting", "scipy.fft", "scipy.stats"]


class Task(Protocol):
    """Something to do in whatever process; what it returns is sent back."""

    def do(self, watch: Watcher, *, threads: int | None) -> Any:
        """`threads` is how many cores are its share, where it has a process of its own. It raises nothing."""

    def died(self, sentence: str) -> Any:
        """What stands for its outcome where its process has ended."""


@dataclass(frozen=True)
class Ended:
    """A run is over; `problem` says why it failed, or nothing."""

    problem: str


@dataclass(frozen=True, kw_only=True)
class Job:
    """A run to do or to go on with; relative paths begin in `folder`."""

    experiment: Experiment
    out: Path
    folder: Path
    planned: Multipliers | None = None
    """The noise, where a plan of this very experiment has worked it out."""

    def do(self, watch: Watcher, *, threads: int | None) -> Ended:
        try:
            run_experiment(
                self._with_workers(threads),
                self.out,
                resume=True,
                folder=self.folder,
                planned=self.planned,
                watch=watch,
            )
        except SordinoError as error:
            return self.died(str(error))
        except Exception as error:
            return self.died(f"{type(error).__name__}: {first_line(error)}")
        finally:
            hand_back()
        return Ended("")

    def died(self, sentence: str) -> Ended:
        return Ended(sentence)

    def _with_workers(self, threads: int | None) -> Experiment:
        """As many workers as the process has cores, where the file leaves that open."""
        engine = self.experiment.engine
        if threads is None or engine.workers:
            return self.experiment
        return self.experiment.model_copy(update={"engine": engine.model_copy(update={"workers": threads})})


Told = Callable[[int, Any], None]
"""Is told the number of a task and what has become of it: moments, and then what it returned."""


class Hands(Protocol):
    """Does tasks, in this process or in others."""

    def do(self, tasks: Sequence[Task], told: Told) -> None: ...


class Here:
    """One task after the other, in this process."""

    def do(self, tasks: Sequence[Task], told: Told) -> None:
        for number, task in enumerate(tasks):
            told(number, task.do(lambda moment, number=number: told(number, moment), threads=None))  # type: ignore[misc]


@contextmanager
def hands(side_by_side: int) -> Iterator[Hands]:
    """Whoever does so many tasks at a time. Processes of their own are started at once, and come up while this one goes on."""
    if side_by_side < 1:
        raise SordinoError(f"--jobs should be at least 1, but got {side_by_side}; one per core is as many as pays.")
    if side_by_side == 1:
        with keeping():
            yield Here()
        return
    pool = Pool(side_by_side)
    try:
        yield pool
    finally:
        pool.close()


@dataclass
class _Worker:
    process: BaseProcess
    connection: Connection
    busy: int | None = None
    """The number of its task."""


@dataclass
class Pool:
    """Processes that each do one task after the other; one that dies is replaced."""

    count: int
    _workers: dict[Connection, _Worker] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        for _ in range(self.count):
            self._start()

    def do(self, tasks: Sequence[Task], told: Told) -> None:
        waiting = deque(range(len(tasks)))
        while waiting or any(worker.busy is not None for worker in self._workers.values()):
            while waiting and len(self._workers) < self.count:
                self._start()
            for worker in self._workers.values():
                if worker.busy is None and waiting:
                    worker.busy = waiting.popleft()
                    with suppress(OSError):  # it has ended, and is listened to below
                        worker.connection.send(tasks[worker.busy])
            for connection in wait(list(self._workers)):
                assert isinstance(connection, Connection)
                self._listen(self._workers[connection], tasks, told)

    def close(self) -> None:
        """Whoever still works is stopped, whoever waits is let go."""
        for worker in self._workers.values():
            if worker.busy is not None:
                worker.process.kill()
            worker.connection.close()
            worker.process.join()
        self._workers.clear()

    def _start(self) -> None:
        context = _context()
        ours, theirs = context.Pipe()
        threads = max(1, free_cores() // self.count)
        process = context.Process(target=_serve, args=(theirs, threads), daemon=True)
        process.start()
        theirs.close()
        self._workers[ours] = _Worker(process, ours)

    def _listen(self, worker: _Worker, tasks: Sequence[Task], told: Told) -> None:
        number = worker.busy
        try:
            news = worker.connection.recv()
        except (EOFError, OSError):
            worker.process.join()
            del self._workers[worker.connection]
            if number is not None:
                code = worker.process.exitcode
                told(
                    number,
                    tasks[number].died(f"Its process ended with exit code {code}; it may have run out of memory."),
                )
            return
        assert number is not None
        if not isinstance(news, Moment):
            worker.busy = None
        told(number, news)


def _context() -> SpawnContext | ForkServerContext:
    """Processes are forked off one that has imported what all of them need; where there is no such thing, each imports it itself."""
    if "forkserver" not in get_all_start_methods():
        return get_context("spawn")
    context = get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    return context


def _serve(connection: Connection, threads: int) -> None:
    """Do the tasks that come in until there are no more; Ctrl-C is for the process that sends them."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(threads)
    with keeping():
        while True:
            try:
                task: Task = connection.recv()
            except EOFError:
                return
            connection.send(task.do(connection.send, threads=threads))
