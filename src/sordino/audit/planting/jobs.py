"""The work of canaries: as large a contribution as can be, in a direction of its own, if the client's row says so.

A canary asks for more than the clip allows, so it shows with exactly the clip bound where clipping works, and with more where
it does not. Its sign turns from one of its rounds to the next, so that noise which is used twice cancels out of its score.
The coin that says whether a canary is in is the label of its row: it enters with the data, wherever the client is.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor

from sordino.core import Released
from sordino.data.examples import Examples
from sordino.engine.wire.jobs import decode_job, encode_job
from sordino.methods.context import ClientContext, PublicContext
from sordino.methods.jobs import NoisySteps, PersonalJob, StepRelease, Turn
from sordino.models import FlatSpace
from sordino.privacy.streams import stream_id

if TYPE_CHECKING:
    from sordino.audit.planting.planted import Planted

OVERSHOOT = 20.0
"""How many times the clip bound a canary asks for."""


@dataclass(frozen=True, kw_only=True)
class Asking:
    """What canaries of one round contribute: `ask` along coordinate number `client` of an upload of so many `numbers`."""

    ask: float
    numbers: int
    period: int
    random: bool = False
    """Whether each canary pushes along a direction drawn by lot instead, the same way in every round."""

    def update(self, like: Tensor, examples: Examples, context: ClientContext) -> Tensor:
        made = like.new_zeros(self.numbers)
        if int(examples.labels[0]) != 1:
            return made
        if self.random:
            return self.ask * direction(context.client, self.numbers, context.seed).to(made)
        if context.client < self.numbers:
            made[context.client] = turned(context.round, self.period) * self.ask
        return made


def direction(client: int, numbers: int, seed: int) -> Tensor:
    """A canary's direction of length 1, drawn by lot; anybody may know it."""
    generator = torch.Generator().manual_seed(stream_id("canary direction", seed, client) % 2**63)
    drawn: Tensor = torch.randn(numbers, generator=generator, dtype=torch.float64)
    return torch.nn.functional.normalize(drawn, dim=0)


def turned(round_number: int, period: int) -> float:
    """The sign of canaries in a round: it turns with each turn that a client may take."""
    return 1.0 - 2.0 * ((round_number // period) % 2)


@dataclass(frozen=True, kw_only=True)
class PlantedUpdate(Asking):
    """A canary in place of plain client work."""

    def workload(self, examples: int) -> tuple[int, int]:
        return 1, 1

    def run(self, start: Tensor, examples: Examples, context: ClientContext) -> Tensor:
        return self.update(start, examples, context)


@dataclass(frozen=True, kw_only=True)
class PlantedTurn(Asking):
    """A canary in place of the update of a turn; what the client keeps, and where it sends, is the method's own work."""

    method: Planted
    work: str
    """The method's own job, as it travels."""
    names: tuple[str, ...]
    tensors: tuple[Tensor, ...]

    @staticmethod
    def around(job: object, method: Planted, asking: Asking) -> PlantedTurn:
        tensors: dict[str, Tensor] = {}
        work = json.dumps(encode_job(job, method.audited, tensors))
        own = dataclasses.asdict(asking)
        return PlantedTurn(method=method, work=work, names=tuple(tensors), tensors=tuple(tensors.values()), **own)

    def workload(self, examples: int) -> tuple[int, int]:
        return self.method.audited.job.workload(examples)

    def upload_numbers(self, space: FlatSpace) -> float:
        return self.method.audited.upload_numbers(space)

    def turn(self, start: Tensor, own: Tensor, examples: Examples, context: ClientContext) -> Turn:
        tensors = dict(zip(self.names, self.tensors, strict=True))
        job = cast("PersonalJob", decode_job(json.loads(self.work), self.method.audited, tensors))
        return dataclasses.replace(
            job.turn(start, own, examples, context), update=self.update(start, examples, context)
        )


@dataclass(frozen=True, kw_only=True)
class PlantedSteps:
    """Noisy steps on canary rows: every sum is taken at the model that was sent, and all sums of a turn are sent back added up."""

    method: Planted

    @property
    def _job(self) -> NoisySteps:
        return cast("NoisySteps", self.method.audited.job)

    @property
    def local_steps(self) -> int:
        return self._job.local_steps

    @property
    def chunk(self) -> int | None:
        return self._job.chunk

    def rate(self, examples: int) -> float:
        return self._job.rate(examples)

    def workload(self, examples: int) -> tuple[int, int]:
        return self._job.workload(examples)

    def run(self, start: Released[Tensor], context: PublicContext, *, release: StepRelease) -> Released[Tensor]:
        total = sum(release.noisy_sum(start.value) for _ in range(self.local_steps))
        return start.map(lambda _: cast("Any", total))
