"""What a client does in its turn. A job is a frozen dataclass: it travels to the client as its settings and tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from torch import Tensor

from sordino.core import Released
from sordino.data.examples import Examples
from sordino.methods.context import ClientContext, PublicContext
from sordino.models import FlatSpace
from sordino.privacy.clipping import Clip


class ClientJob(Protocol):
    """Client-level work: from the model that was sent and the client's rows to an update, still private.

    Clients work one by one, unless the job also has `stacked()` and answers with the plain `LocalSgd` that does the same.
    """

    def workload(self, examples: int) -> tuple[int, int]:
        """The size of a batch and the number of steps on so many rows, for time estimates."""
        ...

    def run(self, start: Tensor, examples: Examples, context: ClientContext) -> Tensor:
        """The update: what is to be added to `start`, as one flat tensor of the same shape."""
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

    def turn(self, start: Tensor, own: Tensor, examples: Examples, context: ClientContext) -> Turn:
        """From the model that was sent and what the client kept to an update and what it keeps next."""
        ...


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

    def noisy_sum(self, model: Tensor, *, only: Sequence[str] | None = None) -> Tensor:
        """The noisy sum of clipped gradients at this model over a fresh Poisson batch; one for each step charged.

        With `only`, gradients are taken, clipped and noised in these parameters alone, in the order of the space.
        """
        ...


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
class NoisyTurn:
    """What one turn of noisy steps gives where clients keep something: both made of noisy sums and what was sent alone.

    Args:
        model: what is sent.
        personal: what stays with the client, and is handed to its next turn.
    """

    model: Released[Tensor]
    personal: Released[Tensor]


@runtime_checkable
class PersonalSteps(NoisySteps, Protocol):
    """Noisy steps of a client that keeps something of its own, which came out of noisy steps too.

    Formal guarantee: what is kept shapes every later gradient, so at example level it must have been paid for like all
    else; it arrives and leaves as a released value.
    """

    def noisy_turn(
        self, start: Released[Tensor], own: Released[Tensor], context: PublicContext, *, release: StepRelease
    ) -> NoisyTurn:
        """From the model that was sent and what the client kept to its model and what it keeps next."""
        ...


Job = ClientJob | PersonalJob | NoisySteps
