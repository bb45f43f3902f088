"""A method with canaries in it: its own rounds, prices and verbs, around the crafted work of clients."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, Self, cast

import torch
from torch import Tensor

from sordino.audit.planting.jobs import OVERSHOOT, Asking, PlantedSteps, PlantedTurn, PlantedUpdate
from sordino.core import Released, Unit
from sordino.data.examples import Examples
from sordino.methods.context import ClientContext
from sordino.methods.jobs import ClientJob, Job, NoisySteps, PersonalJob
from sordino.methods.method import METHODS, Broadcast, Federation, Method, State, Upload
from sordino.methods.sensible import StepFacts
from sordino.models import FlatSpace, Net
from sordino.privacy.pricing import Uses
from sordino.settings import AtLeastOne, member

NAME = "sordino.audit.planting.planted:Planted"
"""How an experiment names it, so that clients in processes of their own find it too."""


class Watch(Protocol):
    """An onlooker before the verbs: what a method is handed of one round, as everybody may see it."""

    def total(self, round_number: int, clip: float, value: Tensor) -> None:
        """A sum over the cohort."""

    def upload(self, round_number: int, clip: float, client: int, value: Tensor) -> None:
        """What one client sent."""


@dataclass(frozen=True, kw_only=True)
class Planted(Method):
    """The method that `inner` names, whose clients are canaries. All that it declares is that method's own."""

    inner: dict[str, Any]
    rounds: AtLeastOne
    period: AtLeastOne = 1
    random: bool = False
    """Whether canaries push along directions drawn by lot, for an onlooker of the last model alone."""

    @cached_property
    def audited(self) -> Method:
        method: Method = member(METHODS, self.inner, where="method")
        return method.for_rounds(self.rounds)

    def for_sizes(self, sizes: Sequence[int]) -> Self:
        return self._around(self.audited.for_sizes(sizes))

    def for_steps(self, facts: StepFacts) -> Self:
        return self._around(self.audited.for_steps(facts))

    def in_random_directions(self) -> Self:
        return self._around(self.audited, random=True)

    def _around(self, audited: Method, **changes: Any) -> Self:
        """The same canaries in the same method with more of its settings worked out."""
        made = dataclasses.replace(self, **changes)
        vars(made)["audited"] = audited
        return made

    @property
    def unit(self) -> Unit:
        return self.audited.unit

    @property
    def uses(self) -> Uses:
        return self.audited.uses

    @property
    def protected(self) -> bool:
        return self.audited.protected

    @property
    def pooled(self) -> bool:
        return self.audited.pooled

    @property
    def uncovered(self) -> str:
        return self.audited.uncovered

    @property
    def keeps_state(self) -> bool:
        return self.audited.keeps_state

    @property
    def personalised(self) -> bool:
        return self.audited.personalised

    @property
    def head_stays_home(self) -> bool:
        return self.audited.head_stays_home

    @property
    def job(self) -> Job:
        return self.planted(self.audited.job, Asking(ask=0.0, numbers=0, period=1))

    @property
    def job_kinds(self) -> tuple[type, ...]:
        return PlantedUpdate, PlantedTurn, PlantedSteps

    @property
    def _in_steps(self) -> bool:
        """Whether canaries are rows of a model of their own, so that the method's demands on its model do not count."""
        return isinstance(self.audited.job, NoisySteps)

    def check(self, net: Net, shared: FlatSpace) -> None:
        if not self._in_steps:
            self.audited.check(net, shared)

    def upload_numbers(self, space: FlatSpace) -> float:
        return self.audited.upload_numbers(space)

    def first_personal(self, net: Net) -> Tensor:
        return torch.empty(0) if self._in_steps else self.audited.first_personal(net)

    def personalise(self, state: State, own: Tensor, examples: Examples, context: ClientContext) -> None:
        self.audited.personalise(state, own, examples, context)

    def planted(self, job: object, asking: Asking) -> Job:
        """The crafted work that stands for this job of the method's own."""
        if isinstance(job, NoisySteps):
            return PlantedSteps(method=self)
        if isinstance(job, PersonalJob):
            return PlantedTurn.around(job, self, asking)
        return PlantedUpdate(**dataclasses.asdict(asking))

    def round(self, number: int, state: State, federation: Federation) -> State:
        return self.audited.round(number, state, cast("Federation", PlantedRound(self, federation, _Nobody())))

    def watched_round(self, number: int, state: State, federation: Federation, watch: Watch) -> State:
        """The method's own round, before the eyes of an onlooker."""
        return self.audited.round(number, state, cast("Federation", PlantedRound(self, federation, watch)))


class _Nobody:
    def total(self, round_number: int, clip: float, value: Tensor) -> None:
        return

    def upload(self, round_number: int, clip: float, client: int, value: Tensor) -> None:
        return


class PlantedRound:
    """A round whose verbs ask canaries in place of the method's own work, and show an onlooker what comes back."""

    def __init__(self, method: Planted, federation: Federation, watch: Watch) -> None:
        self._method, self._federation, self._watch = method, federation, watch

    @property
    def expected_cohort(self) -> float:
        return self._federation.expected_cohort

    @property
    def sizes(self) -> Sequence[int]:
        return self._federation.sizes

    @property
    def space(self) -> FlatSpace:
        return self._federation.space

    @property
    def clip_norm(self) -> float:
        return self._federation.clip_norm

    def collect_sum(self, round_number: int, broadcast: Broadcast, job: ClientJob | PersonalJob) -> Released[Tensor]:
        clip = self.clip_norm
        planted = cast("ClientJob", self._plant(broadcast, job))
        found = self._federation.collect_sum(round_number, broadcast, planted)
        self._watch.total(round_number, clip, found.value)
        return found

    def collect_on_support(self, round_number: int, broadcast: Broadcast, job: PersonalJob) -> Released[Tensor]:
        clip = self.clip_norm
        planted = cast("PersonalJob", self._plant(broadcast, job))
        found = self._federation.collect_on_support(round_number, broadcast, planted)
        self._watch.total(round_number, clip, found.value)
        return found

    def collect_each(self, round_number: int, broadcast: Broadcast, job: ClientJob) -> list[Upload]:
        clip = self.clip_norm
        found = self._federation.collect_each(round_number, broadcast, cast("ClientJob", self._plant(broadcast, job)))
        for upload in found:
            self._watch.upload(round_number, clip, upload.client, upload.value.value)
        return found

    def collect_models(self, round_number: int, broadcast: Broadcast, job: NoisySteps) -> list[Upload]:
        """Canaries send sums of gradients; the method is handed models that did not move, so that canaries stay as loud."""
        clip = self.clip_norm
        found = self._federation.collect_models(
            round_number, broadcast, cast("NoisySteps", self._plant(broadcast, job))
        )
        for upload in found:
            self._watch.upload(round_number, clip, upload.client, upload.value.value)
        return [Upload(client=upload.client, value=broadcast.to(upload.client)) for upload in found]

    def diagnose(self, round_number: int, tensors: Mapping[str, Tensor]) -> None:
        return

    def _plant(self, broadcast: Broadcast, job: object) -> Job:
        numbers = broadcast.upload_like.numel()
        method = self._method
        asking = Asking(ask=OVERSHOOT * self.clip_norm, numbers=numbers, period=method.period, random=method.random)
        return method.planted(job, asking)
