"""A federation in one process: the cohort is drawn, works, and every result goes through the door."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from sordino.core import Private, Released, SordinoError
from sordino.data.examples import Examples
from sordino.engine.moved_clips import MovedClips
from sordino.engine.one_round import OneRound
from sordino.engine.personal_store import PersonalStore
from sordino.engine.schedule import ScheduleName, Task, Workers, run_jobs
from sordino.engine.tally import Tally
from sordino.engine.tariff import Tariff
from sordino.engine.verbs import check_models, check_on_support, check_uploads
from sordino.methods.method import (
    Broadcast,
    ClientContext,
    ClientJob,
    NoisySteps,
    PersonalJob,
    Turn,
    Upload,
)
from sordino.methods.step_release import BatchRelease, PoissonSteps, step_release
from sordino.models import FlatSpace
from sordino.privacy.adaptive_clip import COUNT, AdaptiveClip
from sordino.privacy.clipping import Clip, bound_each
from sordino.privacy.coins import Coins, FreshCoins
from sordino.privacy.door import Door, Permit
from sordino.privacy.ledger import Line
from sordino.privacy.pricing import Price

BYTES_PER_NUMBER = 4


@dataclass
class Traffic:
    """What went over the wire, both ways."""

    up: int = 0
    down: int = 0


@dataclass(kw_only=True)
class SimulatedFederation:
    """Implements what methods may ask of a federation; methods themselves are handed one round of it.

    Formal guarantee: a verb that the method was not priced for is refused before anything is drawn, worked on or charged.
    No two calls share their coins: a verb called again in a round draws its cohort and batches afresh.
    """

    sizes: Sequence[int]
    expected_cohort: float
    space: FlatSpace
    data: Callable[[int], Private[Examples]]
    tariff: Tariff
    door: Door
    workers: Workers
    schedule: ScheduleName
    anchors: Examples | None = None
    """Public examples, for mechanisms that need some."""
    clips: MovedClips = field(default_factory=MovedClips)
    personal: PersonalStore | None = None
    traffic: Traffic = field(default_factory=Traffic)
    keep_diagnostics: Callable[[int, Mapping[str, Tensor]], None] = lambda round_number, tensors: None
    _calls: Counter[int] = field(default_factory=Counter, init=False)
    """How often anything was collected in each round."""

    def for_round(self, number: int) -> OneRound:
        """What a method may see and do in this round."""
        return OneRound(self, number)

    @property
    def clip_norm(self) -> float:
        return self._clip().bound

    def collect_sum(self, round_number: int, broadcast: Broadcast, job: ClientJob | PersonalJob) -> Released[Tensor]:
        check_uploads(self.tariff, "sum", job, keeps_state=self.personal is not None)
        cohort = self._cohort(round_number, self._coins(round_number))
        updates = self._work(cohort, round_number, broadcast, job)
        like = broadcast.upload_like
        tally = self._tally(round_number, like)
        if self.tariff.placement == "central":
            tally.add(self.door.open(self._line(round_number, cohort, owner="server", releases=1)), updates)
            return self._counted(tally)
        for clients, price in self._by_price(cohort, round_number):
            permit = self._permit_for_uploads(round_number, clients, price)
            for client in clients:
                tally.add(permit, [updates[cohort.index(client)]])
            if not self.tariff.per_client:
                tally.fill(permit, self.tariff.sampler.seats - len(clients))
        return self._counted(tally)

    def collect_on_support(self, round_number: int, broadcast: Broadcast, job: PersonalJob) -> Released[Tensor]:
        check_on_support(self.tariff, job, keeps_state=self.personal is not None)
        cohort = self._cohort(round_number, self._coins(round_number))
        turns = dict(zip(cohort, self._turns(cohort, round_number, broadcast, job), strict=True))
        total = Released.public(torch.zeros_like(broadcast.upload_like))
        for clients, price in self.tariff.by_price(cohort, round_number):
            permit = self._permit_for_uploads(round_number, clients, price)
            for client in clients:
                (bounded,) = bound_each([turns[client].map(_update)], self._clip())
                total = total.plus(permit.release_on_support(bounded, turns[client].map(_support)))
        return total

    def collect_each(self, round_number: int, broadcast: Broadcast, job: ClientJob) -> list[Upload]:
        check_uploads(self.tariff, "each", job, keeps_state=self.personal is not None)
        cohort = self._cohort(round_number, self._coins(round_number))
        updates = self._work(cohort, round_number, broadcast, job)
        tally = self._tally(round_number, broadcast.upload_like)
        uploads = []
        for clients, price in self.tariff.by_price(cohort, round_number):
            permit = self._permit_for_uploads(round_number, clients, price)
            uploads += [
                Upload(client=client, value=tally.add(permit, [updates[cohort.index(client)]])) for client in clients
            ]
        self._counted(tally)
        return sorted(uploads, key=lambda upload: upload.client)

    def collect_models(self, round_number: int, broadcast: Broadcast, job: NoisySteps) -> list[Upload]:
        check_models(self.tariff, job, self.sizes)
        coins = self._coins(round_number)
        cohort = self._cohort(round_number, coins)
        releases = {client: self._step_release(round_number, client) for client in cohort}

        def work(task: Task, context: ClientContext) -> Released[Tensor]:
            steps = PoissonSteps(
                releases[task.client], task.data, context, rate=self._rate(task.client), coins=coins, chunk=job.chunk
            )
            return _released(job.run(broadcast.to(task.client), context.public(), release=steps))

        models = self.workers.each(self._tasks(cohort, round_number, broadcast), work)
        for client in cohort:
            self.clips.move(client, releases[client].clip.bound)
        return [Upload(client=client, value=model) for client, model in zip(cohort, models, strict=True)]

    def diagnose(self, round_number: int, tensors: Mapping[str, Tensor]) -> None:
        self.keep_diagnostics(round_number, tensors)

    def _rate(self, client: int) -> float:
        """The rate of a client's batches, as it was priced."""
        assert self.tariff.steps is not None
        return self.tariff.steps.rate(self.sizes[client])

    def _step_release(self, round_number: int, client: int) -> BatchRelease:
        """Charge for a client's steps; what comes back is all that it may release."""
        tariff, price = self.tariff, self.tariff.price(client, round_number)
        assert tariff.steps is not None
        clip, count = self._clip(client), tariff.steps.local_steps
        line = self._line(round_number, [client], owner=f"client {client}", releases=count, price=price, label="steps")
        moves = isinstance(tariff.mechanism, AdaptiveClip)
        permit = self.door.open(dataclasses.replace(line, clip_bound=clip.sensitivity, moving_clip=moves))
        return step_release(
            tariff.mechanism,
            clip=clip,
            permit=permit,
            others=price.others,
            expected_units=tariff.expected_units(client),
            anchors=self.anchors,
        )

    def _clip(self, client: int = 0) -> Clip:
        return dataclasses.replace(self.tariff.clip, bound=self.clips.of(client, self.tariff.clip.bound))

    def _by_price(self, cohort: list[int], round_number: int) -> list[tuple[list[int], Price]]:
        """Groups that pay the same; of an empty cohort one empty group, whose seats are filled."""
        return self.tariff.by_price(cohort, round_number) or [([], self.tariff.price(0, round_number))]

    def _tally(self, round_number: int, like: Tensor) -> Tally:
        counts = any(part.name == COUNT for part in self.tariff.price(0, round_number).others)
        return Tally(clip=self._clip(), like=like, counts=counts)

    def _counted(self, tally: Tally) -> Released[Tensor]:
        """The noisy sum; where the mechanism counts, the clip moves for the next round."""
        mechanism = self.tariff.mechanism
        if isinstance(mechanism, AdaptiveClip) and tally.counts:
            expected = self.tariff.expected_units(0)
            self.clips.move(0, mechanism.next_bound(tally.clip.bound, float(tally.count.value), expected))
        return tally.total

    def _permit_for_uploads(self, round_number: int, clients: list[int], price: Price) -> Permit:
        return self.door.open(
            self._line(round_number, clients, owner="each client", releases=len(clients), price=price)
        )

    def _coins(self, round_number: int) -> Coins:
        """The coins of this call: those of the round, or others where the round's own were flipped before."""
        repeat = self._calls[round_number]
        self._calls[round_number] += 1
        return FreshCoins(coins=self.door.source, repeat=repeat) if repeat else self.door.source

    def _cohort(self, round_number: int, coins: Coins) -> list[int]:
        """Who was drawn and can still pay; who cannot has retired, and its seat is filled like any empty one."""
        drawn = [int(client) for client in self.tariff.sampler.draw(round_number, coins)]
        if not self.tariff.retires:
            return drawn
        return [
            client
            for client in drawn
            if self.door.ledger.affords(client, self.tariff.price(client, round_number).charges)
        ]

    def _tasks(
        self, cohort: list[int], round_number: int, broadcast: Broadcast, upload_numbers: float | None = None
    ) -> list[Task]:
        sent = self.space.size if upload_numbers is None else upload_numbers
        self.traffic.down += len(cohort) * self.space.size * BYTES_PER_NUMBER
        self.traffic.up += len(cohort) * math.ceil(sent * BYTES_PER_NUMBER)
        return [
            Task(
                client=client,
                round=round_number,
                size=self.sizes[client],
                start=broadcast.to(client).value,
                data=self.data(client),
            )
            for client in cohort
        ]

    def _work(
        self, cohort: list[int], round_number: int, broadcast: Broadcast, job: ClientJob | PersonalJob
    ) -> list[Private[Tensor]]:
        if isinstance(job, PersonalJob):
            return [turn.map(_update) for turn in self._turns(cohort, round_number, broadcast, job)]
        tasks = self._tasks(cohort, round_number, broadcast)
        return run_jobs(self.schedule, self.workers, tasks, job) if cohort else []

    def _turns(
        self, cohort: list[int], round_number: int, broadcast: Broadcast, job: PersonalJob
    ) -> list[Private[Turn]]:
        """Every client's turn with what it keeps, which is back in its place when this returns."""
        personal = self.personal
        assert personal is not None

        def work(task: Task, context: ClientContext) -> Private[Turn]:
            return task.data.pair(personal.of(task.client)).map(
                lambda known: job.turn(task.start, known[1], known[0], context)
            )

        tasks = self._tasks(cohort, round_number, broadcast, job.upload_numbers(self.space))
        turns = self.workers.each(tasks, work) if tasks else []
        for client, turn in zip(cohort, turns, strict=True):
            personal.keep(client, turn.map(_personal))
        return turns

    def _line(
        self,
        round_number: int,
        clients: list[int],
        *,
        owner: str,
        releases: int,
        price: Price | None = None,
        label: str = "update",
    ) -> Line:
        tariff, sampler = self.tariff, self.tariff.sampler
        price = price or tariff.price(clients[0] if clients else 0, round_number)
        return Line(
            round=round_number,
            label=label,
            unit=tariff.unit,
            owner=owner,
            mechanism=tariff.mechanism.noise,
            norm=tariff.clip.norm,
            clip_bound=self._clip().sensitivity,
            noise_multiplier=price.noise_multiplier,
            releases=releases,
            period=sampler.period,
            residue=sampler.residue(round_number),
            participants=tuple(clients),
            others=price.others,
            charges=price.charges,
        )


def _released(model: object) -> Released[Tensor]:
    if not isinstance(model, Released):
        raise SordinoError(
            f"Noisy steps must return a released model, but got {type(model).__name__}; return start.map(...) as NoisySgd does."
        )
    return model


def _update(turn: Turn) -> Tensor:
    return turn.update


def _personal(turn: Turn) -> Tensor:
    return turn.personal


def _support(turn: Turn) -> Tensor:
    if turn.support is None:
        raise SordinoError(
            "collect_on_support needs turns that say where their update is sent, but got one without; set Turn.support."
        )
    return turn.support
