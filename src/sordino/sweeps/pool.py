"""Runs one after the other in this process, or side by side in processes of their own.

A run fails alone: what it raises becomes a sentence, and so does the death of its process. Side by side, each process has its
share of the cores; the number of workers changes no bit of a run.
"""

from __future__ import annotations

import signal
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path

import torch

from sordino.core import SordinoError
from sordino.cores import free_cores
from sordino.engine.run import Moment, Watcher, run_experiment
from sordino.experiment import Experiment
from sordino.sentences import first_line


@dataclass(frozen=True, kw_only=True)
class Job:
    """A run to do or to go on with; relative paths begin in `folder`."""

    experiment: Experiment
    out: Path
    folder: Path


@dataclass(frozen=True)
class Ended:
    """A run is over; `problem` says why it failed, or nothing."""

    problem: str


Told = Callable[[int, Moment | Ended], None]
"""Is told the number of a job and what has become of it."""


def run_all(jobs: Sequence[Job], told: Told, *, side_by_side: int) -> None:
    """Do all jobs, so many at a time."""
    if side_by_side < 1:
        raise SordinoError(f"--jobs should be at least 1, but got {side_by_side}; one per core is as many as pays.")
    if min(side_by_side, len(jobs)) > 1:
        _Pool(jobs, told, min(side_by_side, len(jobs))).run()
        return
    for number, job in enumerate(jobs):
        told(number, Ended(_attempt(job, lambda moment, number=number: told(number, moment))))  # type: ignore[misc]


def _attempt(job: Job, watch: Watcher) -> str:
    """Do a job; returns what went wrong, or nothing."""
    try:
        run_experiment(job.experiment, job.out, resume=True, folder=job.folder, watch=watch)
    except SordinoError as error:
        return str(error)
    except Exception as error:
        return f"{type(error).__name__}: {first_line(error)}"
    return ""


class _Pool:
    """Processes that each do one job after the other; one that dies is replaced."""

    def __init__(self, jobs: Sequence[Job], told: Told, count: int) -> None:
        self._jobs, self._told, self._count = jobs, told, count
        self._waiting = deque(range(len(jobs)))
        self._busy: dict[Connection, tuple[BaseProcess, int]] = {}

    def run(self) -> None:
        try:
            for _ in range(self._count):
                self._next(*self._start())
            while self._busy:
                for connection in wait(list(self._busy)):
                    assert isinstance(connection, Connection)
                    self._listen(connection)
        finally:
            for process, _ in self._busy.values():
                process.kill()

    def _start(self) -> tuple[BaseProcess, Connection]:
        context = get_context("spawn")
        ours, theirs = context.Pipe()
        threads = max(1, free_cores() // self._count)
        process = context.Process(target=_serve, args=(theirs, threads), daemon=True)
        process.start()
        theirs.close()
        return process, ours

    def _next(self, process: BaseProcess, connection: Connection) -> None:
        """Give a process the next job, or let it go."""
        if not self._waiting:
            connection.close()
            process.join()
            return
        number = self._waiting.popleft()
        self._busy[connection] = process, number
        connection.send(self._jobs[number])

    def _listen(self, connection: Connection) -> None:
        process, number = self._busy[connection]
        try:
            message = connection.recv()
        except (EOFError, OSError):
            process.join()
            del self._busy[connection]
            self._told(
                number, Ended(f"Its process ended with exit code {process.exitcode}; it may have run out of memory.")
            )
            if self._waiting:
                self._next(*self._start())
            return
        self._told(number, message)
        if isinstance(message, Ended):
            del self._busy[connection]
            self._next(process, connection)


def _serve(connection: Connection, threads: int) -> None:
    """Do the jobs that come in until there are no more; Ctrl-C is for the process that sends them."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(threads)
    while True:
        try:
            job: Job = connection.recv()
        except EOFError:
            return
        connection.send(Ended(_attempt(_with_workers(job, threads), connection.send)))


def _with_workers(job: Job, threads: int) -> Job:
    """As many workers as the process has cores, where the file leaves that open."""
    engine = job.experiment.engine
    shared = engine.model_copy(update={"workers": engine.workers or threads})
    return Job(experiment=job.experiment.model_copy(update={"engine": shared}), out=job.out, folder=job.folder)
