"""What a run will take on this machine, reckoned from a short trial by counts of rows, steps and rounds."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn

from sordino.cores import free_cores
from sordino.data.examples import Examples
from sordino.engine.building import shared_space
from sordino.engine.costing.made_up import Shapes
from sordino.engine.costing.process_memory import forget_peak, peak, resident
from sordino.engine.costing.sampled import makespan, spread
from sordino.engine.costing.starting import Taken, reading, starting
from sordino.engine.costing.subject import Costs, Subject
from sordino.engine.costing.trial import Asked, Scale, Stage, Tried, asking, attempt, evaluation_taken, shortest
from sordino.engine.features import CHUNK as BODY_CHUNK
from sordino.engine.features import body_outputs, frozen_body
from sordino.engine.kernel_trial import left_to_torch_here
from sordino.engine.process_cost import SECONDS as SECONDS_OF_A_PROCESS
from sordino.engine.row_checks import look_for_anchors
from sordino.engine.rows_at_once import rows_at_once
from sordino.engine.simulate.allocator import tune_allocator
from sordino.engine.traffic import BYTES_PER_NUMBER
from sordino.kernels.choice import leave_to_torch
from sordino.methods.jobs import NoisySteps
from sordino.models import FlatSpace, Net
from sordino.processor import processor
from sordino.tuning import Phase, lengths

FIRST_ROWS, FIRST_TESTS = 16, 64
"""Rows with which trials begin: of a client whose batches are as large as it is, and of those that a model is tested on."""
BODY_CHUNKS = (1, 4, 16)
"""How many chunks of rows a frozen body is tried on: memory is in pieces only after a few."""
SECONDS_OF_TURNS, SECONDS_OF_TEST, SECONDS_OF_BODY, SECONDS_OF_ASKING = 0.8, 0.4, 2.0, 1.0
"""A larger trial is done where it should take no longer than that."""
MOST_TRIALS = 3
WORTH_IT = 1.3
"""A larger trial that is not so many times the first one is left out."""


def measure(subject: Subject) -> Costs:
    """Try every phase of the run for a moment, on made-up rows. Nothing is charged or released, and no shared generator is used."""
    tune_allocator()
    forget_peak()
    held = resident()
    parts = subject.parts
    leave_to_torch(
        parts.model.net,
        left_to_torch_here(
            parts.model.net,
            subject.facts.shape,
            private_examples=parts.resolved.method.unit == "example",
            device=parts.resolved.device,
        ),
    )
    read = reading(parts.resolved, subject.facts)
    start = starting(parts.resolved, parts.model, subject.shapes.source(1), folder=subject.folder)
    asked = _asked(subject)
    phases = parts.phases if asked is None else asked.phases
    looked = subject.looked if subject.looked.anchors else look_for_anchors(parts.resolved, subject.shapes.source(1))
    stages = [_described(subject, phase, looked.anchors) for phase in phases]
    played = [_Trials(stage).played() for stage, _ in stages]
    features = [taken for _, taken in stages]
    rounds = lengths(phases, parts.resolved.experiment.rounds)
    evaluations = _evaluations(subject, rounds)
    data = subject.rows * subject.shapes.row_bytes
    before = Taken(seconds=0.0, memory=0) if asked is None else asked.taken
    prepared = max(read.seconds, subject.looking) + start.seconds + before.seconds + looked.seconds
    taken = (start.memory, before.memory, *(one.memory for one in features), *(one.memory for one in played))
    memory = max(read.memory, data + max(taken))
    return Costs(
        start=subject.before + prepared + played[0].begin + _processes(subject),
        features=sum(taken.seconds for taken in features),
        rounds=sum(one.round * count for one, count in zip(played, rounds, strict=True)),
        evaluation=sum(one.evaluation * count for one, count in zip(played, evaluations, strict=True)),
        end=played[0].end.seconds,
        assumed="" if asked is None else "if the tuning chooses as it does on made-up rows",
        memory_bytes=held + memory + played[0].end.memory,
        processor=processor(),
        threads=parts.resolved.experiment.engine.workers or free_cores(),
    )


def _processes(subject: Subject) -> float:
    """Seconds until all client processes have begun, where clients have some."""
    if subject.parts.resolved.experiment.engine.name != "process":
        return 0.0
    return SECONDS_OF_A_PROCESS * math.ceil(len(subject.sizes) / free_cores())


def _evaluations(subject: Subject, rounds: Sequence[int]) -> list[int]:
    """How many fall into each phase."""
    every, ends, total = subject.evaluations.every, 0, list[int]()
    for count in rounds:
        total.append((ends + count) // every - ends // every)
        ends += count
    total[-1] += bool(ends % every)
    return total


def _asked(subject: Subject) -> Asked | None:
    """What a tuning asks before the first round, tried on few rows of each client."""
    parts, shapes = subject.parts, subject.shapes
    stage = _stage(subject, parts.phases[0], parts.model.net, parts.spaces[0], shapes, None)
    method, most = parts.resolved.method, max(subject.sizes)
    few = min(most, FIRST_ROWS)
    first = asking(stage, Scale(method=method, most_rows=few))
    if first is None or few == most:
        return first
    turns = math.ceil(len(subject.sizes) / stage.threads("workers"))
    more = min(most, few * max(1, int(SECONDS_OF_ASKING * turns / first.taken.seconds * most / few)))
    second = asking(stage, Scale(method=method, most_rows=more)) if more > few else first
    assert second is not None
    memory = second.taken.memory * most // more
    return dataclasses.replace(second, taken=Taken(seconds=second.taken.seconds, memory=memory))


def _described(subject: Subject, phase: Phase, anchors: Examples | None) -> tuple[Stage, Taken]:
    """A phase as it is trained, and what a frozen body takes to describe all rows before it."""
    parts, resolved, shapes = subject.parts, subject.parts.resolved, subject.shapes
    net = parts.model.net.to(resolved.device)
    space = shared_space(resolved, net, phase.trainable)
    taken = Taken(seconds=0.0, memory=0)
    if frozen_body(net, phase.trainable):
        rows = subject.rows + (0 if anchors is None else len(anchors))
        shapes, taken = _body(net, shapes, resolved.device, rows)
        if anchors is not None:
            anchors = dataclasses.replace(shapes.rows(len(anchors)), labels=anchors.labels)
        net = Net(body=nn.Identity(), head=net.head)
        space = FlatSpace(net, space.names)
    return _stage(subject, phase, net, space, shapes, anchors), taken


def _stage(
    subject: Subject, phase: Phase, net: Net, space: FlatSpace, shapes: Shapes, anchors: Examples | None
) -> Stage:
    parts = subject.parts
    asked = parts.resolved.experiment.engine.schedule
    return Stage(
        resolved=parts.resolved,
        tariff=parts.tariff,
        phase=phase,
        whole=parts.model.net,
        net=net,
        space=space,
        shapes=shapes,
        roster=subject.roster,
        test_rows=subject.facts.n_test,
        anchors=anchors,
        schedule="workers" if asked == "auto" and len(parts.phases) > 1 else asked,
    )


def _body(net: Net, shapes: Shapes, device: Any, rows: int) -> tuple[Shapes, Taken]:
    """What a head is trained on, and what it takes to make it."""
    body_outputs(net, shapes.rows(1), device)
    forget_peak()
    held, pace = resident(), 0.0
    for tried in (chunks * BODY_CHUNK for chunks in BODY_CHUNKS):
        if pace * tried > SECONDS_OF_BODY:
            break
        begin = time.perf_counter()
        made = body_outputs(net, shapes.rows(tried), device)
        pace = (time.perf_counter() - begin) / tried
    width = made.shape[1]
    described = dataclasses.replace(shapes, shape=(width,), kind="tabular")
    kept = rows * width * BYTES_PER_NUMBER
    return described, Taken(seconds=pace * rows, memory=max(0, peak() - held) + 2 * kept)


@dataclass(frozen=True, kw_only=True)
class _Played:
    """A phase of the run: seconds to begin it, of a round and of an evaluation, and the most bytes that it takes."""

    begin: float
    end: Taken
    round: float
    evaluation: float
    memory: int


class _Trials:
    """One small trial, one larger where it is quick enough, and what follows from them for whole turns."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._sizes = stage.roster.sizes
        self._cohort = stage.tariff.sampler.expected_cohort
        most, method = max(self._sizes), stage.resolved.method
        self._full = Scale(method=method, most_rows=most)
        batch, _ = method.job.workload(most)
        first = min(most, 2 * batch if 2 * batch < most else FIRST_ROWS)
        self._first = Scale(method=shortest(method), most_rows=first)

    def played(self) -> _Played:
        stage, tests = self._stage, self._fewest_tests
        tried = [(self._first, attempt(stage, self._first, test_rows=tests, first=True))]
        _, first = tried[0]
        stage = dataclasses.replace(stage, schedule=first.schedule)
        for _ in range(MOST_TRIALS - 1):
            scale = self._larger(*tried[-1])
            if scale is None:
                break
            tried.append((scale, attempt(stage, scale, test_rows=tests, first=False)))
        clients = self._turns(tried)
        scale, last = tried[-1]
        evaluation, evaluation_memory = self._evaluation(stage, last, scale)
        rounds = self._memory(*(one for _, one in tried[-2:]))
        return _Played(
            begin=first.begin,
            end=first.end,
            round=clients + last.server,
            evaluation=evaluation,
            memory=self._together(first, rounds, evaluation_memory) + self._kept,
        )

    @property
    def _fewest_tests(self) -> int:
        return min(self._stage.test_rows, max(FIRST_TESTS, 4 * self._stage.shapes.classes))

    def _work(self, scale: Scale, threads: int) -> float:
        """What the turns of a cohort amount to, for the thread that has most: of everyone, or of clients here and there."""
        works = [scale.work(size) for size in self._sizes]
        drawn = sorted(spread(len(works))[: max(1, round(self._cohort))])
        share = self._cohort / len(works) * sum(works) / sum(works[client] for client in drawn)
        return share * makespan((works[client] for client in drawn), threads)

    def _larger(self, before: Scale, first: Tried) -> Scale | None:
        """The largest trial that is quick enough; None where it would hardly be larger than the one before."""
        pace, threads = first.clients / first.work, self._stage.threads(first.schedule)
        rows = [max(1, self._full.most_rows >> halvings) for halvings in range(40)]
        every = [
            Scale(method=method, most_rows=most)
            for method in (self._full.method, self._first.method)
            for most in dict.fromkeys(rows)
            if most >= self._first.most_rows
        ]

        def seconds(scale: Scale) -> float:
            """Of the part of a round that is done at least: one turn, or all turns where they are stacked."""
            whole = first.schedule == "stacked"
            return pace * (self._work(scale, 1) if whole else scale.work(scale.most_rows))

        quick = [scale for scale in every if seconds(scale) <= SECONDS_OF_TURNS]
        best = max(quick, key=lambda scale: self._work(scale, threads), default=before)
        return best if self._work(best, threads) >= WORTH_IT * self._work(before, threads) else None

    def _turns(self, tried: Sequence[tuple[Scale, Tried]]) -> float:
        """Seconds of an expected cohort's whole turns."""
        (smaller, first), (larger, second) = tried[max(0, len(tried) - 2)], tried[-1]
        threads = self._stage.threads(first.schedule)
        small, large, whole = (self._work(scale, threads) for scale in (smaller, larger, self._full))
        before, after = first.clients / first.work * small, second.clients / second.work * large
        if large >= whole or large <= small:
            return after * whole / large
        slope = min(max((after - before) / (large - small), 0.6 * after / large), after / large)
        return after + slope * (whole - large)

    def _evaluation(self, stage: Stage, tried: Tried, scale: Scale) -> tuple[float, int]:
        """Seconds of an evaluation, and the bytes that it takes."""
        more = stage.roster.times_more(scale.most_rows)
        seconds = tried.evaluation + (more - 1) * tried.evaluated_clients
        rows = stage.test_rows
        if not rows:
            return seconds, 0
        few = self._fewest_tests
        small = evaluation_taken(stage, few)
        most = min(rows, rows_at_once(stage.net, stage.shapes.rows(1), stage.resolved.device))
        many = max(few, min(most, int(few * SECONDS_OF_TEST / max(small.seconds, 1e-6))))
        large = evaluation_taken(stage, many) if many > few else small
        slope = large.seconds / many if many == few else max(0.0, large.seconds - small.seconds) / (many - few)
        growth = large.memory / many if many == few else max(0.0, large.memory - small.memory) / (many - few)
        passes = 1 if stage.resolved.method.personalised or not stage.resolved.experiment.data.client_test_rows else 2
        memory = round(large.memory + growth * max(0, most - many))
        return seconds + passes * slope * (rows - few), memory

    def _together(self, tried: Tried, rounds: int, evaluation: int) -> int:
        """Workers' threads keep what they freed for themselves, so an evaluation comes on top; stacked clients have the same thread."""
        apart = tried.schedule == "workers" and self._cohort > 1
        return rounds + evaluation if apart else max(rounds, evaluation)

    def _memory(self, first: Tried, last: Tried | None = None) -> int:
        """The most bytes that rounds take: as in the trial, with whole batches and clients and all uploads."""
        second = last or first
        taken = max(first.memory, second.memory, second.evaluation_memory if not self._stage.test_rows else 0)
        small, large, whole = (self._batch(rows) for rows in (first.rows, second.rows, self._full.most_rows))
        growth = max(0, second.memory - first.memory) / max(1, large - small) if large > small else 0.0
        together = min(self._stage.threads(first.schedule), len(self._sizes))
        uploads = second.left_out * self._stage.space.size * BYTES_PER_NUMBER
        return round(taken + growth * (whole - large)) + together * self._rows_left(second.rows) + uploads

    def _rows_left(self, tried: int) -> int:
        """Bytes of a client's rows that were not tried: as they are kept, and as numbers where they are fed to a model."""
        job, shapes, most = self._stage.resolved.method.job, self._stage.shapes, self._full.most_rows
        numbers = shapes.row_bytes + BYTES_PER_NUMBER * math.prod(shapes.shape)
        fed = most - tried
        if isinstance(job, NoisySteps):  # a batch alone is fed
            fed = job.workload(most)[0] - job.workload(max(1, tried))[0]
        return (most - tried) * shapes.row_bytes + max(0, fed) * numbers

    def _batch(self, rows: int) -> int:
        """Rows that are in a model at once, of a client that has so many."""
        job = self._stage.resolved.method.job
        batch = max(1, job.workload(max(1, rows))[0])
        return min(batch, getattr(job, "chunk", None) or batch)

    @property
    def _kept(self) -> int:
        """What clients keep from turn to turn, once in memory and once on its way to the disk; and noise that a mechanism keeps."""
        method = self._stage.resolved.method
        own = method.first_personal(self._stage.net).numel() if method.keeps_state else 0
        turns = min(len(self._sizes), self._cohort * self._stage.resolved.experiment.rounds)
        return (
            2 * round(turns) * own + self._stage.tariff.mechanism.kept_vectors * self._stage.space.size
        ) * BYTES_PER_NUMBER
