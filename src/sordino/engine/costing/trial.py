"""A few rounds and an evaluation by the code of a run, on made-up rows, with a ledger of their own that is thrown away."""

from __future__ import annotations

import dataclasses
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from sordino.core import SordinoError
from sordino.cores import free_cores
from sordino.data.examples import Examples
from sordino.engine.costing.made_up import Roster, Shapes
from sordino.engine.costing.process_memory import forget_peak, peak, resident
from sordino.engine.costing.sampled import SECONDS_OF_WARMING, SampledWorkers, Sampling, makespan
from sordino.engine.costing.starting import Taken
from sordino.engine.evaluate import evaluate_as_it_is
from sordino.engine.moment import Moment
from sordino.engine.priced_steps import priced_steps
from sordino.engine.record import RunRecord
from sordino.engine.resolved import Resolved
from sordino.engine.run import Run
from sordino.engine.setup import Setup
from sordino.engine.simulate.workers import Workers
from sordino.engine.summary import epsilon_by_view
from sordino.engine.tariff import Tariff
from sordino.experiment import ClientsSection
from sordino.files import make_folder
from sordino.methods import Method
from sordino.models import FlatSpace, Net
from sordino.tuning import Phase, Tuning

R = TypeVar("R", bound=Run)

SECONDS_OF_CLIENTS = 0.4
"""How long a sample of one round's clients may take."""
ROUNDS_TRIED, SECONDS_OF_ROUNDS = 3, 0.5
"""A trial ends after so many rounds, or with the one that passes so many seconds."""
DRAWS = 200
"""Rounds whose cohort may turn out empty before a trial gives up."""


@dataclass(frozen=True, kw_only=True)
class Scale:
    """How much of the work is tried: by which method, and on how many rows of a client at most."""

    method: Method
    most_rows: int

    def work(self, rows: int) -> float:
        """Rows that pass through the model in a turn on so many."""
        batch, steps = self.method.job.workload(max(1, min(rows, self.most_rows)))
        return float(max(1, batch) * max(1, steps))


@dataclass(frozen=True, kw_only=True)
class Stage:
    """A phase of a run as a trial takes it: the model and the shape of what it is fed, frozen parts left behind."""

    resolved: Resolved
    tariff: Tariff
    phase: Phase
    whole: Net
    net: Net
    space: FlatSpace
    shapes: Shapes
    roster: Roster
    test_rows: int
    anchors: Examples | None
    schedule: str

    def threads(self, schedule: str) -> int:
        """Among how many threads clients' turns are shared out; stacked, they are one computation."""
        return 1 if schedule == "stacked" else self.resolved.experiment.engine.workers or free_cores()


@dataclass(frozen=True, kw_only=True)
class Tried:
    """What a trial saw, reckoned for all clients of a round."""

    end: Taken
    """The summary: ε of every client in every view."""
    begin: float
    """Seconds to begin: workers, ledger, and the choice of a schedule."""
    clients: float
    """Seconds of the cohort's turns in a round."""
    server: float
    """Seconds of everything else in a round."""
    evaluation: float
    evaluated_clients: float
    """Of the seconds of an evaluation, those of the clients' own turns."""
    work: float
    """What the cohort's turns amounted to, for the thread that had most of it."""
    rows: int
    """The most rows of a client."""
    memory: int
    """Bytes that the rounds took at most, besides what was held before."""
    evaluation_memory: int
    left_out: int
    """Uploads that were not made."""
    schedule: str


@dataclass(frozen=True, kw_only=True)
class _SampledSetup(Setup):
    sampling: Sampling

    def make_workers(self) -> Workers:
        return SampledWorkers(
            self.net,
            self.space,
            seed=self.experiment.seed,
            device=self.device,
            workers=self.experiment.engine.workers,
            sampling=self.sampling,
        )


def shortest(method: Method) -> Method:
    """The same method with one pass or step a turn, where it takes several and can take one."""
    fields = {field.name for field in dataclasses.fields(method)} if dataclasses.is_dataclass(method) else set[str]()
    fewer = {name: 1 for name in ("epochs", "local_steps") if name in fields and getattr(method, name) != 1}
    try:
        return dataclasses.replace(method, **fewer)  # type: ignore[type-var]
    except SordinoError:
        return method


class _Trial(Run):
    """A run that asks nothing before its first round."""

    def _decide(self) -> None:
        return None


class _Asking(Run):
    """A run that asks what its tuning asks before the first round, and stays in the phase in which it did."""

    def _enter(self, *, fresh: bool) -> None:
        self.choice = self._decide()
        self.state = {"model": self.setup.space.read(self.setup.net)}


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What a tuning that asks clients takes for it, and the phases that it chooses."""

    taken: Taken
    phases: tuple[Phase, ...]


def asking(stage: Stage, scale: Scale) -> Asked | None:
    """Ask made-up clients what the tuning asks; None where it asks nothing."""
    tuning = stage.resolved.tuning
    if type(tuning).decide is Tuning.decide:
        return None
    sampling = Sampling(seconds_each=SECONDS_OF_CLIENTS, work=scale.work)
    forget_peak()
    held = resident()
    with tempfile.TemporaryDirectory(prefix="sordino-plan-") as folder, ExitStack() as closing:
        begin = time.perf_counter()
        run = _begun(_Asking, _setup(stage, scale, sampling, 0), Path(folder), closing)
        seconds = time.perf_counter() - begin - sampling.seconds
        seconds += sampling.reckoned * stage.roster.times_more(scale.most_rows)
        assert run.choice is not None
        phases = tuning.chosen_phases(stage.whole, stage.resolved.experiment.rounds, run.choice)
    return Asked(taken=Taken(seconds=seconds, memory=max(0, peak() - held)), phases=phases)


def _begun(kind: type[R], setup: Setup, folder: Path, closing: ExitStack) -> R:
    """A run with a ledger of its own, which has no budget: more rounds may be tried than are paid for, and none is released."""
    record = RunRecord(folder / "run")
    make_folder(record.folder)
    run = kind(setup, record, closing, settled=None, folder=folder, finish=False, watch=_nobody)
    run.ledger.budget = None
    return run


def attempt(stage: Stage, scale: Scale, *, test_rows: int, first: bool) -> Tried:
    """Play a few rounds at this scale, and evaluate.

    `first` where nothing was tried before: then ε is summed up too.
    """
    sampling = Sampling(seconds_each=SECONDS_OF_CLIENTS, work=scale.work)
    setup = _setup(stage, scale, sampling, test_rows)
    forget_peak()
    held = resident()
    with tempfile.TemporaryDirectory(prefix="sordino-plan-") as folder, ExitStack() as closing:
        begin = time.perf_counter()
        run = _begun(_Trial, setup, Path(folder), closing)
        seconds = sampling.without_sampling(time.perf_counter() - begin)
        played = _rounds(run, sampling, scale, stage.threads(run.schedule))
        memory = peak() - held
        begin = time.perf_counter()
        sampling.begin()
        run.evaluate(run.next_round)
        evaluation = sampling.without_sampling(time.perf_counter() - begin)
        evaluation_memory = peak() - held
        return Tried(
            end=_ending(run) if first else Taken(seconds=0.0, memory=0),
            begin=seconds,
            clients=played.clients,
            server=played.server,
            evaluation=evaluation,
            evaluated_clients=sampling.reckoned,
            work=played.work,
            rows=max(setup.federated.sizes),
            memory=memory,
            evaluation_memory=evaluation_memory,
            left_out=played.left_out,
            schedule=run.schedule,
        )


def _ending(run: Run) -> Taken:
    held, begin = resident(), time.perf_counter()
    epsilon_by_view(run.ledger)
    return Taken(seconds=time.perf_counter() - begin, memory=max(0, resident() - held))


def evaluation_taken(stage: Stage, test_rows: int) -> Taken:
    """What it takes to score a model on so many public rows."""
    sampling = Sampling(seconds_each=0.0, work=lambda rows: 1.0)
    setup = _setup(stage, Scale(method=stage.resolved.method, most_rows=1), sampling, test_rows)
    model = setup.space.read(setup.net)
    forget_peak()
    held = resident()
    net, test = setup.evaluated(model), setup.federated.source.public_test
    begin = time.perf_counter()
    evaluate_as_it_is(net, test, setup.device, stage.shapes.target)
    return Taken(seconds=time.perf_counter() - begin, memory=max(0, peak() - held))


@dataclass(frozen=True, kw_only=True)
class _Round:
    clients: float
    server: float
    work: float
    left_out: int


def _rounds(run: Run, sampling: Sampling, scale: Scale, threads: int) -> _Round:
    """Ordinary rounds, the quickest of which counts, and one of those in which the server has more to do."""
    begun, found = time.perf_counter(), list[_Round]()
    period = run.setup.method.server_period
    for number in (number for number in range(DRAWS) if (number + 1) % period or period == 1):
        if (played := _play(run, number, sampling, scale, threads)) is not None:
            found.append(played)
        limit = SECONDS_OF_WARMING if len(found) == 1 else SECONDS_OF_ROUNDS
        if len(found) == ROUNDS_TRIED or (found and time.perf_counter() - begun > limit):
            break
    if not found:
        return _Round(clients=0.0, server=0.0, work=1.0, left_out=0)
    usual = _mean(found[1:] or found)
    if 1 < period <= run.setup.experiment.rounds:
        rare = _play(run, period - 1, sampling, scale, threads) or usual
        server = (usual.server * (period - 1) + rare.server) / period
        return dataclasses.replace(usual, server=server)
    return usual


def _mean(rounds: Sequence[_Round]) -> _Round:
    clients, server, work = (
        sum(getattr(one, name) for one in rounds) / len(rounds) for name in ("clients", "server", "work")
    )
    return _Round(clients=clients, server=server, work=work, left_out=max(one.left_out for one in rounds))


def _play(run: Run, number: int, sampling: Sampling, scale: Scale, threads: int) -> _Round | None:
    """One round, and its checkpoint; None where nobody was drawn."""
    sampling.begin()
    before, begin = len(run.ledger.lines), time.perf_counter()
    run.state = run.next_state(number)
    cohort = {client for line in run.ledger.lines[before:] for client in line.participants}
    run.next_round = number + 1
    run.save(number + 1)
    if not cohort:
        return None
    seconds = time.perf_counter() - begin
    return _Round(
        clients=sampling.reckoned,
        server=seconds - sampling.seconds,
        work=makespan((scale.work(run.setup.federated.sizes[client]) for client in sorted(cohort)), threads),
        left_out=sampling.left_out,
    )


def _setup(stage: Stage, scale: Scale, sampling: Sampling, test_rows: int) -> _SampledSetup:
    source = stage.shapes.source(test_rows)
    federated = stage.roster.federated(source, most_rows=scale.most_rows)
    experiment = stage.resolved.experiment
    engine = experiment.engine.model_copy(
        update={
            "name": "simulate",
            "keep_features": False,
            "schedule": stage.schedule,
            "minimum_cohort": 1,
            "evaluate_every": 1,
        }
    )
    calm = experiment.model_copy(update={"engine": engine, "clients": ClientsSection()})
    resolved = dataclasses.replace(stage.resolved, experiment=calm, method=scale.method)
    tariff = stage.tariff
    if tariff.steps is not None:
        tariff = dataclasses.replace(tariff, steps=priced_steps(scale.method))
    return _SampledSetup(
        resolved=resolved,
        phases=(dataclasses.replace(stage.phase, first_round=0),),
        loaded=federated,
        federated=federated,
        whole=stage.whole,
        net=stage.net,
        space=stage.space,
        tariff=tariff,
        anchors=stage.anchors,
        loaded_anchors=stage.anchors,
        sampling=sampling,
    )


def _nobody(moment: Moment) -> None:
    return
