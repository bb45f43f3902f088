"""PPSGD and CENTAUR with the noise inside clients' own steps: their promise is per example, and covers personal parts too.

At example level a personal part that was trained without noise would shape the gradient of every other row, and nothing would
bound what one row changes. So every step is noisy here, those of the personal part too, and each is charged.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from sordino.core import Released, SordinoError, Unit
from sordino.data.examples import Examples
from sordino.methods.context import ClientContext, PublicContext
from sordino.methods.jobs import NoisyTurn, StepRelease
from sordino.methods.method import METHODS, Broadcast, Federation, State
from sordino.methods.model_average import averaged, shares_of
from sordino.methods.noisy_sgd import NoisySgd
from sordino.methods.personal import Personalised, head_space
from sordino.models import FlatSpace, Net
from sordino.privacy.pricing import Uses
from sordino.settings import AtLeastOne, NotNegative, Positive

HEAD = "head."
"""How the names of a head's parameters begin."""


@dataclass(frozen=True, kw_only=True)
class PersonalNoisySgd(Personalised, NoisySgd):
    """Clients take noisy steps and keep a part of what they end at; the server averages the rest by public sizes.

    Formal guarantee: that of every client's noisy steps. What a client keeps is made of noisy sums and of what it was sent, so it
    has the same ε; averaging is post-processing.
    """

    head_epochs: AtLeastOne = 15
    """Of clients that join late, which tune a head when training is over; all others train by noisy steps."""
    head_batch_size: AtLeastOne = 32
    """Of clients that join late, as head_epochs."""
    head_learning_rate: Positive = 0.01
    """Of clients that join late, as head_epochs."""

    unit: ClassVar[Unit] = "example"
    uses: ClassVar[Uses] = "each"

    def __post_init__(self) -> None:
        self.refuse_open()

    @property
    def job(self) -> PersonalNoisySgd:
        return self

    def round(self, number: int, state: State, federation: Federation) -> State:
        uploads = federation.collect_models(number, Broadcast.of(state["model"]), self)
        return {**state, "model": averaged(state["model"], shares_of(uploads, federation))}


@METHODS.register("ppsgd-steps")
@dataclass(frozen=True, kw_only=True)
class PpSgdSteps(PersonalNoisySgd):
    """PPSGD at example level: noisy steps at w + v_i move the shared w and the personal v_i by the same noisy gradient."""

    personal_step_ratio: NotNegative = 1.0
    """The step of v_i over the step of w; 0 freezes v_i."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.refuse_idle_momentum(self.local_steps, where="method", steps="local_steps = 1")

    def noisy_turn(
        self, start: Released[Tensor], own: Released[Tensor], context: PublicContext, *, release: StepRelease
    ) -> NoisyTurn:
        shared, personal = start.value.clone(), _or_zeros(own.value, start.value).clone()
        pace, speeds = self.pace(context.round), torch.zeros(2, shared.numel(), device=shared.device)
        for _ in range(self.local_steps):
            gradient = release.noisy_sum(shared + personal) / release.expected_batch
            for part, speed, ratio in zip((shared, personal), speeds, (1.0, self.personal_step_ratio), strict=True):
                speed.mul_(self.momentum).add_(gradient + self.weight_decay * part)
                part.sub_(pace * ratio * speed)
        return NoisyTurn(model=start.map(lambda _: shared), personal=own.map(lambda _: personal))

    def personalise(self, state: State, own: Tensor, examples: Examples, context: ClientContext) -> None:
        context.space.write(context.net, state["model"] + _or_zeros(own, state["model"]))


@METHODS.register("centaur-steps")
@dataclass(frozen=True, kw_only=True)
class CentaurSteps(PersonalNoisySgd):
    """CENTAUR at example level: the first noisy steps of a turn train the client's own head, the others the shared extractor.

    Each step's gradient is taken, clipped and noised in its own part alone. What is sent holds the head as it was sent out.
    """

    head_learning_rate: Positive = 0.01
    """Of the noisy steps that train the head; and of clients that join late, as head_epochs."""
    head_steps: AtLeastOne = 1
    """How many of the local steps train the head."""
    local_steps: AtLeastOne = 2
    """Noisy steps of a turn, those of the head among them; each is charged."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.head_steps >= self.local_steps:
            raise SordinoError(
                f"[method] head_steps = {self.head_steps} should leave some of the local steps to the extractor, but got local_steps = "
                f"{self.local_steps}; lower head_steps or raise local_steps."
            )
        steps = f"local_steps = {self.local_steps} and head_steps = {self.head_steps}"
        self.refuse_idle_momentum(max(self.head_steps, self.local_steps - self.head_steps), where="method", steps=steps)

    def check(self, net: Net, shared: FlatSpace) -> None:
        super().check(net, shared)
        head, body = _halves(shared)
        if set(net.parts()["head"]) != set(head) or not body:
            raise SordinoError(
                "centaur-steps trains a head and an extractor under it, but got a model or tuning without both; choose a model such as "
                "'mlp' or 'cnn', and tuning = 'full'."
            )

    def first_personal(self, net: Net) -> Tensor:
        return head_space(net).read(net)

    def noisy_turn(
        self, start: Released[Tensor], own: Released[Tensor], context: PublicContext, *, release: StepRelease
    ) -> NoisyTurn:
        head, body = _halves(context.space)
        model, sent = start.value.clone(), start.value.clone()
        own_places, shared_places = _places(context.space, head), _places(context.space, body)
        model[own_places] = own.value
        self._descend(model, head, own_places, self.head_steps, self.head_learning_rate, release)
        left = self.local_steps - self.head_steps
        self._descend(model, body, shared_places, left, self.pace(context.round), release)
        sent[shared_places] = model[shared_places]
        return NoisyTurn(model=start.map(lambda _: sent), personal=own.map(lambda _: model[own_places]))

    def _descend(
        self, model: Tensor, names: list[str], places: Tensor, steps: int, pace: float, release: StepRelease
    ) -> None:
        """So many noisy steps of these parameters, which lie at these places of the model and begin at rest."""
        speed = torch.zeros(len(places), device=model.device)
        for _ in range(steps):
            gradient = release.noisy_sum(model, only=names) / release.expected_batch
            speed = self.momentum * speed + gradient + self.weight_decay * model[places]
            model[places] -= pace * speed

    def personalise(self, state: State, own: Tensor, examples: Examples, context: ClientContext) -> None:
        context.space.write(context.net, state["model"])
        head_space(context.net).write(context.net, own)


def _or_zeros(own: Tensor, like: Tensor) -> Tensor:
    return own if own.numel() else torch.zeros_like(like)


def _halves(space: FlatSpace) -> tuple[list[str], list[str]]:
    """The trained parameters of the head, and all others."""
    return [name for name in space.names if name.startswith(HEAD)], [
        name for name in space.names if not name.startswith(HEAD)
    ]


def _places(space: FlatSpace, names: list[str]) -> Tensor:
    """Where these parameters lie in the flat tensor, in the order of the space."""
    flags = torch.zeros(space.size, dtype=torch.bool)
    for name, view in space.views(flags).items():
        view.fill_(name in names)
    return flags.nonzero()[:, 0]
