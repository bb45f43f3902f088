"""What an engine offers a method for one round: what is sent to clients, and the only ways in which anything comes back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from torch import Tensor

from sordino.core import Released
from sordino.methods.jobs import ClientJob, NoisySteps, PersonalJob
from sordino.models import FlatSpace


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
        """The model that this client is sent."""
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
    """The verbs, and a few public facts.

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
