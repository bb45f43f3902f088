"""What a method is: client work, and a server step over released values alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import torch
from torch import Tensor

from sordino.core import Private, Registry, Released, Unit
from sordino.data.examples import Examples
from sordino.models import FlatSpace, Net
from sordino.privacy.clipping import Clip
from sordino.privacy.pricing import Uses
from sordino.privacy.streams import stream_id

if TYPE_CHECKING:
    from sordino.gradients import ClippedGradients
    from sordino.privacy.noise import NoiseSource

State = dict[str, Tensor]
"""What the server keeps between rounds. It is made of released values, so it may be stored and shown."""


@dataclass(frozen=True, kw_only=True)
class ClientContext:
    """What client work may know besides its data: where, when, and its own stream of randomness."""

    net: Net
    space: FlatSpace
    client: int
    round: int
    size: int
    """How many rows the client holds, declared public."""
    seed: int
    device: torch.device

    def generator(self, purpose: str) -> torch.Generator:
        generator = torch.Generator()
        generator.manual_seed(stream_id(self.seed, purpose, self.round, self.client))
        return generator


class ClientJob(Protocol):
    """Client-level work: from the model that was sent and the client's rows to an update, still private."""

    def workload(self, examples: int) -> tuple[int, int]:
        """The size of a batch and the number of steps on so many rows, for time estimates."""
        ...

    def run(self, start: Tensor, examples: Examples, context: ClientContext) -> Tensor: ...


class StepRelease(Protocol):
    """What a mechanism makes of one batch: a noisy sum of gradients, through the door."""

    @property
    def clip(self) -> Clip: ...

    def noisy_sum(
        self, gradients: ClippedGradients, batch: Private[Examples], *, units: int, context: ClientContext, step: int
    ) -> Tensor: ...


@dataclass(frozen=True, kw_only=True)
class Turn:
    """What one turn of a client gives: an update to bound, charge and noise, and what stays with the client."""

    update: Tensor
    personal: Tensor
    support: Tensor | None = None
    """Where the update is sent at all, if the client itself chose: it shows, and no noise covers it."""


@runtime_checkable
class PersonalJob(Protocol):
    """Client-level work of a client that keeps something of its own from one turn to the next."""

    def workload(self, examples: int) -> tuple[int, int]: ...

    def upload_numbers(self, space: FlatSpace) -> float:
        """How many numbers one upload sends."""
        ...

    def turn(self, start: Tensor, own: Tensor, examples: Examples, context: ClientContext) -> Turn: ...


class NoisySteps(Protocol):
    """Example-level work: every step goes through the door inside the client, so what comes back is released."""

    @property
    def local_steps(self) -> int: ...

    def rate(self, examples: int) -> float: ...

    def workload(self, examples: int) -> tuple[int, int]: ...

    def run(
        self,
        start: Released[Tensor],
        data: Private[Examples],
        context: ClientContext,
        *,
        release: StepRelease,
        source: NoiseSource,
    ) -> Released[Tensor]: ...


@dataclass(frozen=True, kw_only=True)
class Broadcast:
    """What clients are sent: the same to all, except to those who get a copy of their own."""

    common: Released[Tensor]
    personal: Mapping[int, Released[Tensor]] = field(default_factory=dict)
    wanted: Released[Tensor] | None = None
    """The coordinates that clients are to send, where not all: chosen in the open, so only their values travel."""

    @staticmethod
    def of(model: Tensor, personal: Mapping[int, Tensor] | None = None, wanted: Tensor | None = None) -> Broadcast:
        """From what the server keeps, which is made of released values alone."""
        copies = {client: Released.public(copy) for client, copy in (personal or {}).items()}
        return Broadcast(
            common=Released.public(model),
            personal=copies,
            wanted=None if wanted is None else Released.public(wanted),
        )

    @property
    def upload_like(self) -> Tensor:
        """A tensor of an upload's shape."""
        return self.common.value if self.wanted is None else self.common.value[self.wanted.value]

    def to(self, client: int) -> Released[Tensor]:
        return self.personal.get(client, self.common)


@dataclass(frozen=True, kw_only=True)
class Upload:
    """What the server got from one client."""

    client: int
    value: Released[Tensor]


class Federation(Protocol):
    """What an engine offers a method: the only ways in which anything comes back from clients."""

    expected_cohort: float
    sizes: Sequence[int]
    """Rows per client, declared public."""
    space: FlatSpace

    @property
    def clip_norm(self) -> float: ...

    def collect_sum(self, round_number: int, broadcast: Broadcast, job: ClientJob | PersonalJob) -> Released[Tensor]:
        """The noisy sum of clipped updates over this round's cohort."""
        ...

    def collect_on_support(self, round_number: int, broadcast: Broadcast, job: PersonalJob) -> Released[Tensor]:
        """The sum of updates noised only where their senders chose: the choice shows, so nothing is promised."""
        ...

    def collect_each(self, round_number: int, broadcast: Broadcast, job: ClientJob) -> list[Upload]:
        """Every noisy update by itself."""
        ...

    def collect_models(self, round_number: int, broadcast: Broadcast, job: NoisySteps) -> list[Upload]:
        """Models that clients trained with noisy steps of their own."""
        ...

    def diagnose(self, round_number: int, tensors: Mapping[str, Tensor]) -> None:
        """Keep numbers for the researcher at the simulator; they are outside every guarantee and labelled so."""
        ...


class Method(Protocol):
    """One way to learn from a federation. A frozen dataclass whose fields are its settings."""

    @property
    def unit(self) -> Unit: ...

    @property
    def uses(self) -> Uses:
        """Whether the server needs every upload or only their sum."""
        ...

    @property
    def protected(self) -> bool:
        """Whether it claims any privacy at all."""
        ...

    @property
    def pooled(self) -> bool:
        """Whether all rows lie in one place, with the server."""
        ...

    @property
    def job(self) -> ClientJob | NoisySteps: ...

    def plan_facts(self, rounds: int) -> dict[str, str]:
        """What a plan should say of this method besides noise and cost."""
        ...

    def round(self, number: int, state: State, federation: Federation) -> State: ...


@runtime_checkable
class RoundsAware(Protocol):
    """A method with settings that depend on how long the run is."""

    def for_rounds(self, rounds: int) -> Method: ...


@runtime_checkable
class ModelAware(Protocol):
    """A method that not every model serves."""

    def check(self, net: Net, shared: FlatSpace) -> None:
        """Refuse a model, or settings that do not go with it, before anything is trained."""
        ...


METHODS: Registry[type[Method]] = Registry("method", "sordino.methods")
