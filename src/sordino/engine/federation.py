"""A federation in one process: the cohort is drawn, works, and every result goes through the door."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from sordino.core import Private, Released
from sordino.data.examples import Examples
from sordino.engine.personal_store import PersonalStore
from sordino.engine.schedule import ScheduleName, Task, Workers, run_jobs
from sordino.engine.tariff import Tariff
from sordino.methods.method import Broadcast, ClientContext, ClientJob, NoisySteps, PersonalJob, Turn, Upload
from sordino.models import FlatSpace
from sordino.privacy.clipping import bound_each, bound_sum
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
    """Implements what methods may ask of a federation."""

    sizes: Sequence[int]
    expected_cohort: float
    space: FlatSpace
    data: Callable[[int], Private[Examples]]
    tariff: Tariff
    door: Door
    workers: Workers
    schedule: ScheduleName
    personal: PersonalStore | None = None
    traffic: Traffic = field(default_factory=Traffic)
    keep_diagnostics: Callable[[int, Mapping[str, Tensor]], None] = lambda round_number, tensors: None

    @property
    def clip_norm(self) -> float:
        return self.tariff.clip.bound

    def collect_sum(self, round_number: int, broadcast: Broadcast, job: ClientJob | PersonalJob) -> Released[Tensor]:
        cohort = self._cohort(round_number)
        updates = self._work(cohort, round_number, broadcast, job)
        like = broadcast.upload_like
        if self.tariff.placement == "central":
            permit = self.door.open(self._line(round_number, cohort, owner="server", releases=1))
            return permit.release(bound_sum(updates, self.tariff.clip, like=like))
        total = Released.public(torch.zeros_like(like))
        for clients, price in self.tariff.by_price(cohort) or [([], self.tariff.price(0))]:
            permit = self._permit_for_uploads(round_number, clients, price)
            for value in bound_each([updates[cohort.index(client)] for client in clients], self.tariff.clip):
                total = total.plus(permit.release(value))
            if not self.tariff.per_client:
                total = total.plus(permit.fill_seats(self.tariff.sampler.seats - len(clients), like))
        return total

    def collect_on_support(self, round_number: int, broadcast: Broadcast, job: PersonalJob) -> Released[Tensor]:
        cohort = self._cohort(round_number)
        turns = dict(zip(cohort, self._turns(cohort, round_number, broadcast, job), strict=True))
        total = Released.public(torch.zeros_like(broadcast.upload_like))
        for clients, price in self.tariff.by_price(cohort):
            permit = self._permit_for_uploads(round_number, clients, price)
            for client in clients:
                (bounded,) = bound_each([turns[client].map(_update)], self.tariff.clip)
                total = total.plus(permit.release_on_support(bounded, turns[client].map(_support)))
        return total

    def collect_each(self, round_number: int, broadcast: Broadcast, job: ClientJob) -> list[Upload]:
        cohort = self._cohort(round_number)
        updates = self._work(cohort, round_number, broadcast, job)
        uploads = []
        for clients, price in self.tariff.by_price(cohort):
            permit = self._permit_for_uploads(round_number, clients, price)
            bounded = bound_each([updates[cohort.index(client)] for client in clients], self.tariff.clip)
            uploads += [
                Upload(client=client, value=permit.release(value))
                for client, value in zip(clients, bounded, strict=True)
            ]
        return sorted(uploads, key=lambda upload: upload.client)

    def collect_models(self, round_number: int, broadcast: Broadcast, job: NoisySteps) -> list[Upload]:
        cohort = self._cohort(round_number)
        permits = {
            client: self.door.open(
                self._line(
                    round_number,
                    [client],
                    owner=f"client {client}",
                    releases=job.local_steps,
                    price=self.tariff.price(client),
                    label="steps",
                )
            )
            for client in cohort
        }
        tasks = self._tasks(cohort, round_number, broadcast)
        models = self.workers.each(
            tasks,
            lambda task, context: job.run(
                broadcast.to(task.client),
                task.data,
                context,
                clip=self.tariff.clip,
                permit=permits[task.client],
                source=self.door.source,
            ),
        )
        return [Upload(client=client, value=model) for client, model in zip(cohort, models, strict=True)]

    def diagnose(self, round_number: int, tensors: Mapping[str, Tensor]) -> None:
        self.keep_diagnostics(round_number, tensors)

    def _permit_for_uploads(self, round_number: int, clients: list[int], price: Price) -> Permit:
        return self.door.open(
            self._line(round_number, clients, owner="each client", releases=len(clients), price=price)
        )

    def _cohort(self, round_number: int) -> list[int]:
        """Who was drawn and can still pay; who cannot has retired, and its seat is filled like any empty one."""
        drawn = [int(client) for client in self.tariff.sampler.draw(round_number, self.door.source)]
        if not self.tariff.retires:
            return drawn
        return [client for client in drawn if self.door.ledger.affords(client, self.tariff.price(client).charges)]

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
        price = price or tariff.price(clients[0] if clients else 0)
        return Line(
            round=round_number,
            label=label,
            unit=tariff.unit,
            owner=owner,
            mechanism=tariff.mechanism_name,
            norm=tariff.clip.norm,
            clip_bound=tariff.clip.sensitivity,
            noise_multiplier=price.noise_multiplier,
            releases=releases,
            period=sampler.period,
            residue=sampler.residue(round_number),
            participants=tuple(clients),
            charges=price.charges,
        )


def _update(turn: Turn) -> Tensor:
    return turn.update


def _personal(turn: Turn) -> Tensor:
    return turn.personal


def _support(turn: Turn) -> Tensor:
    assert turn.support is not None
    return turn.support
