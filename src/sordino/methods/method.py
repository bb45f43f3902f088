"""What a method is: client work, and a server step over released values alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from sordino.core import Released, Unit
from sordino.data.examples import Examples
from sordino.models import FlatSpace, Net
from sordino.privacy.clipping import Clip
from sordino.privacy.pricing import Uses
from sordino.privacy.streams import stream_id
from sordino.registry import Registry

State = dict[str, Tensor]
"""What the server keeps between rounds. It is made of released values, so it may be stored and shown."""


@dataclass(frozen=True, kw_only=True)
class PublicContext:
    """What is public of a client's turn: where, when, and a stream of randomness of its own."""

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


@dataclass(frozen=True, kw_only=True)
class ClientContext(PublicContext):
    """The same for work that sees the client's rows, with a model to work in."""

    net: Net

    def public(self) -> PublicContext:
        """Without the model, which rows have passed through."""
        return PublicContext(**{field.name: getattr(self, field.name) for field in dataclasses.fields(PublicContext)})


class ClientJob(Protocol):
    """Client-level work: from the model that was sent and the client's rows to an update, still private.

    Clients work one by one, unless the job also has `stacked()` and answers with the plain `LocalSgd` that does the same.
    """

    def workload(self, examples: int) -> tuple[int, int]:
        """The size of a batch and the number of steps on so many rows, for time estimates."""
        ...

    def run(self, start: Tensor, examples: Examples, context: ClientContext) -> Tensor: ...


class StepRelease(Protocol):
    """All that noisy steps get to see of a client's rows.

    Formal guarantee: the rows, the charged rate and the noise stay behind it. Whoever asks chooses the model at which
    gradients are taken, and nothing of how a batch is drawn, clipped or noised.
    """

    @property
    def clip(self) -> Clip:
        """The clip of the next step."""
        ...

    @property
    def expected_batch(self) -> float:
        """How many rows a batch has on average: the public number to divide a noisy sum by."""
        ...

    def noisy_sum(self, model: Tensor) -> Tensor:
        """The noisy sum of clipped gradients at this model over a fresh Poisson batch; one for each step charged."""
        ...


@dataclass(frozen=True, kw_only=True)
class Turn:
    """What one turn of a client gives.

    Args:
        update: what is bounded, charged for, noised and sent.
        personal: what stays with the client and is handed to its next turn.

    Example:
        `Turn(update=self.run(start, examples, context), personal=head)`
    """

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


@runtime_checkable
class NoisySteps(Protocol):
    """Example-level work: every step goes through the door inside the client, so what comes back is released."""

    @property
    def local_steps(self) -> int:
        """How many noisy sums a turn asks for at the most: it is charged for so many."""
        ...

    @property
    def chunk(self) -> int | None:
        """How many rows' gradients are held in memory at once; None for a whole batch."""
        ...

    def rate(self, examples: int) -> float:
        """The chance with which each of so many rows enters a batch: it is priced, and batches are drawn with it."""
        ...

    def workload(self, examples: int) -> tuple[int, int]: ...

    def run(self, start: Released[Tensor], context: PublicContext, *, release: StepRelease) -> Released[Tensor]:
        """From the model that was sent to the client's own, by noisy sums alone."""
        ...


@dataclass(frozen=True, kw_only=True)
class Broadcast:
    """What clients are sent: the same to all, except to those who get a copy of their own.

    Example:
        `federation.collect_sum(number, Broadcast.of(state["model"]), self.job)`
    """

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
    """What the server got from one client.

    Args:
        client: its number on the roster.
        value: its noisy update, or its model where steps were noisy, in the coordinates of `federation.space`.

    Example:
        `sum(upload.value.value for upload in federation.collect_each(number, broadcast, self.job))`
    """

    client: int
    value: Released[Tensor]


class Federation(Protocol):
    """What an engine offers a method for one round: the only ways in which anything comes back from clients.

    Each verb hands out what its name says, and works only for a method that was priced for it by what it declares:
    `unit = "client"` with `uses = "sum"` for `collect_sum`, with `uses = "each"` for `collect_each`; `unit = "example"`
    for `collect_models`; a reason in `uncovered` for `collect_on_support`. Anything else is refused before it is charged.
    A verb called again in the same round draws a cohort of its own and is charged again.
    """

    @property
    def expected_cohort(self) -> float: ...

    @property
    def sizes(self) -> Sequence[int]:
        """Rows per client, declared public."""
        ...

    @property
    def space(self) -> FlatSpace: ...

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
    """One way to learn from a federation. A frozen dataclass whose fields are its settings.

    Most inherit `Averaging`, `LocalSgd` or `NoisySgd` and change one thing.

    Example:
        see `sordino.methods.dp_fedprox.DpFedProx`, or "Add a method" in CONTRIBUTING.md
    """

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


METHODS: Registry[type[Method]] = Registry("method", "sordino.methods", Method)
