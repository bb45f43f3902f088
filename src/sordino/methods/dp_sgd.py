"""DP-SGD: every step clips each example's gradient and adds noise; in one place, or inside each client with averaging."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from sordino.core import SordinoError, Unit
from sordino.methods.method import METHODS, Broadcast, Federation, Method, State
from sordino.methods.model_average import averaged, shares_of
from sordino.methods.noisy_sgd import LastingNoisySgd, NoisySgd
from sordino.methods.sensible import StepFacts, share_of_rows
from sordino.privacy.pricing import Uses
from sordino.settings import AtLeastOne, Positive


@METHODS.register("dp-sgd")
@dataclass(frozen=True, kw_only=True)
class DpSgd(Method, NoisySgd):
    """Example-level DP: noisy steps on Poisson batches, in one place or inside each client with averaging.

    FedSGD is batch_size = "full" with one local step: every client's mean clipped gradient, with its own noise. `beta`
    stands for a learning rate of β/√T over T rounds.

    With one local step, `momentum` is heavy-ball momentum over the rounds: clients take plain noisy steps, and the server keeps the
    velocity, v ← momentum·v + the averaged step, and moves the model by it. Averaging is linear, so this is what one place
    with all the rows would do. With more local steps, momentum acts from step to step inside each client's turn, and
    every turn begins at rest, unless `lasting_momentum` lets the client keep its velocity for its next turn.

    Formal guarantee: that of every client's noisy steps; averaging them, and the velocity made of them, is post-processing.
    """

    where: Literal["one-place", "clients"] = "clients"
    batch_size: AtLeastOne | Literal["full", "auto"] = "auto"
    learning_rate: Positive | Literal["auto"] = "auto"
    beta: Positive | None = None
    lasting_momentum: bool = False
    """Whether a turn of several local steps goes on with the velocity at which the client's last one ended, in place of rest."""

    unit: ClassVar[Unit] = "example"
    uses: ClassVar[Uses] = "each"

    def __post_init__(self) -> None:
        if self.lasting_momentum and (not self.momentum or self.local_steps == 1):
            raise SordinoError(
                f"[method] lasting_momentum keeps the velocity of several local steps, but got momentum = {self.momentum:g} with "
                f"local_steps = {self.local_steps}, where nothing is left to keep; raise them, or leave it out."
            )

    @property
    def keeps_state(self) -> bool:
        return self.lasting_momentum

    @property
    def job_kinds(self) -> tuple[type, ...]:
        return (LastingNoisySgd,)

    @property
    def pooled(self) -> bool:
        return self.where == "one-place"

    def for_rounds(self, rounds: int) -> DpSgd:
        """The same method with its learning rate worked out for a run of so many rounds."""
        if self.beta is None:
            return self
        return dataclasses.replace(self, learning_rate=self.beta / math.sqrt(rounds), beta=None)

    def for_sizes(self, sizes: Sequence[int]) -> DpSgd:
        """With batches of all rows, or of the same share of every client's rows, where nobody gave their size."""
        if self.batch_size != "auto" or self.batch_share is not None:
            return self
        share = share_of_rows(sizes)
        return dataclasses.replace(self, batch_size="full", batch_share=None if share == 1 else share)

    def for_steps(self, facts: StepFacts) -> DpSgd:
        """With a learning rate that suits noise and length of the run and falls over it, where nobody gave one."""
        if self.learning_rate != "auto":
            return self
        return dataclasses.replace(
            self, learning_rate=facts.pace(self.momentum), decay_rounds=self.decay_rounds or facts.rounds
        )

    def plan_facts(self, rounds: int) -> dict[str, str]:
        """What was worked out, and what to write for something else."""
        if isinstance(self.learning_rate, str):
            return {}
        batch = "all rows" if self.batch_size == "full" else f"{self.batch_size} rows"
        batch = batch if self.batch_share is None else f"{self.batch_share:.3g} of all rows"
        falling = "" if self.decay_rounds is None else f" on average, from {2 * self.learning_rate:.3g} to nothing"
        return {"steps": f"batches of {batch}, learning rate {self.learning_rate:.3g}{falling}"}

    @property
    def job(self) -> NoisySgd:
        if not self.lasting_momentum:
            return self
        return LastingNoisySgd(**{field.name: getattr(self, field.name) for field in dataclasses.fields(NoisySgd)})

    def round(self, number: int, state: State, federation: Federation) -> State:
        """Average the cohort's models by their public sizes; whoever is absent keeps the global model's share."""
        uploads = federation.collect_models(number, Broadcast.of(state["model"]), self.job)
        shares = shares_of(uploads, federation)
        if self.momentum and self.local_steps == 1:
            return self._with_velocity(state, shares)
        return {**state, "model": averaged(state["model"], shares)}

    def _with_velocity(self, state: State, shares: list[tuple[float, Tensor]]) -> State:
        """Heavy ball: the velocity decays in every round, and takes up the averaged step where somebody sent one."""
        model = state["model"]
        velocity = self.momentum * state.get("velocity", torch.zeros_like(model))
        for share, upload in shares:
            velocity += share * (upload - model)
        return {**state, "model": model + velocity, "velocity": velocity}
