"""SGD inside one client whose every step goes through the door: per-example clipping, noise, then the step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from sordino.core import Released, SordinoError
from sordino.methods.context import PublicContext
from sordino.methods.jobs import NoisyTurn, StepRelease
from sordino.settings import AtLeastOne, Momentum, NotNegative, Positive, Share

FULL_BATCH_CHUNK = 512
"""Rows whose gradients are held in memory at once where a batch is all there is and nothing else was asked."""


@dataclass(frozen=True, kw_only=True)
class NoisySgd:
    """`local_steps` on fresh Poisson batches of the client's own rows; batch_size = "full" takes all rows every time.

    Formal guarantee: each step releases a sum over a fresh Poisson batch of one owner's rows, each row's gradient clipped,
    divided by the expected batch. Momentum and weight decay are post-processing.
    """

    local_steps: AtLeastOne = 1
    batch_size: AtLeastOne | Literal["full", "auto"] = 256
    """How many rows of a client are in a batch, on average: "full" for all of them, "auto" for all up to a few thousand."""
    batch_share: Share | None = None
    """The share of a client's rows in a batch, in place of batch_size: the same for all clients, who then pay the same ε."""
    learning_rate: Positive | Literal["auto"] = 0.1
    """How far a step goes; "auto" is worked out from public facts: rounds, rows, noise, clip norm and size of the model."""
    decay_rounds: AtLeastOne | None = None
    """Rounds over which the learning rate falls in a straight line, from twice its value to nothing; without, it stays."""
    momentum: Momentum = 0.0
    """Acts from one local step to the next; every turn begins at rest."""
    weight_decay: NotNegative = 0.0
    physical_batch: AtLeastOne | None = None

    def rate(self, examples: int) -> float:
        if self.batch_share is not None:
            return self.batch_share
        size = number(self.batch_size, "batch_size") if self.batch_size != "full" else examples
        return min(1.0, size / examples)

    @property
    def chunk(self) -> int | None:
        """How many rows' gradients are held in memory at once; None for a whole batch."""
        return self.physical_batch or (FULL_BATCH_CHUNK if self.batch_share or self.batch_size == "full" else None)

    def pace(self, round_number: int) -> float:
        """The learning rate of a round."""
        mean = number(self.learning_rate, "learning_rate")
        left = 1.0 if self.decay_rounds is None else 2 - (2 * round_number + 1) / self.decay_rounds
        return mean * max(0.0, left)

    def refuse_open(self) -> None:
        """Refuse what is left to a method that works nothing out."""
        self.pace(0)
        self.rate(1)

    def refuse_idle_momentum(self, in_a_row: int, *, where: str, steps: str) -> None:
        """Refuse momentum where no more than one step is taken from rest; `steps` are the settings that say how many."""
        if self.momentum and in_a_row == 1:
            raise SordinoError(
                f"[{where}] momentum acts from one local step to the next, but got momentum = {self.momentum:g} with {steps}, where it "
                "would do nothing; raise local_steps, or set momentum = 0."
            )

    def workload(self, examples: int) -> tuple[int, int]:
        return max(1, round(self.rate(examples) * examples)), self.local_steps

    def run(self, start: Released[Tensor], context: PublicContext, *, release: StepRelease) -> Released[Tensor]:
        model, _ = self.descend(start.value, None, context, release)
        return start.map(lambda _: model)

    def descend(
        self, start: Tensor, velocity: Tensor | None, context: PublicContext, release: StepRelease
    ) -> tuple[Tensor, Tensor]:
        """Where so many noisy steps lead, and the velocity at the end; without one, they begin at rest."""
        model, pace = start.clone(), self.pace(context.round)
        speed = torch.zeros_like(model) if velocity is None else velocity.clone()
        gradient, product = torch.empty_like(model), torch.empty_like(model)
        for _ in range(self.local_steps):
            torch.div(release.noisy_sum(model), release.expected_batch, out=gradient)
            if self.weight_decay:
                gradient.add_(torch.mul(model, self.weight_decay, out=product))
            speed.mul_(self.momentum).add_(gradient)
            model.sub_(torch.mul(speed, pace, out=product))
        return model, speed


@dataclass(frozen=True, kw_only=True)
class LastingNoisySgd(NoisySgd):
    """The same steps, whose velocity the client keeps from turn to turn: it is made of noisy sums, so it is paid for."""

    def noisy_turn(
        self, start: Released[Tensor], own: Released[Tensor], context: PublicContext, *, release: StepRelease
    ) -> NoisyTurn:
        model, velocity = self.descend(start.value, own.value if own.value.numel() else None, context, release)
        return NoisyTurn(model=start.map(lambda _: model), personal=own.map(lambda _: velocity))


def number(value: float | str, name: str) -> float:
    """A setting as the number that it is, or that was worked out for it before the first step."""
    if isinstance(value, str):
        raise SordinoError(
            f"{name} should be a number here, but got {value!r}, which method 'dp-sgd' alone works out; give a number."
        )
    return value
