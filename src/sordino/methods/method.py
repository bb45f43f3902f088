"""What a method is: client work, and a server step over released values alone."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Self

import torch
from torch import Tensor

from sordino.conformity import Advice
from sordino.core import Unit
from sordino.data.examples import Examples
from sordino.methods.context import ClientContext, PublicContext
from sordino.methods.federation import Broadcast, Federation, Upload
from sordino.methods.jobs import (
    ClientJob,
    Job,
    NoisySteps,
    NoisyTurn,
    PersonalJob,
    PersonalSteps,
    StepRelease,
    Turn,
)
from sordino.methods.sensible import StepFacts
from sordino.models import FlatSpace, Net
from sordino.privacy.pricing import Uses
from sordino.registry import Registry

__all__ = [
    "METHODS",
    "Broadcast",
    "ClientContext",
    "ClientJob",
    "Federation",
    "Job",
    "Method",
    "NoisySteps",
    "NoisyTurn",
    "PersonalJob",
    "PersonalSteps",
    "PublicContext",
    "State",
    "StepRelease",
    "Turn",
    "Upload",
]

State = dict[str, Tensor]
"""What the server keeps between rounds. It is made of released values, so it may be stored and shown."""


class Method(ABC):
    """One way to learn from a federation. A frozen dataclass whose fields are its settings.

    A method says what it protects (`unit`) and how uploads are used (`uses`), names its clients' work (`job`), and makes the next
    state of the last one in `round`. Everything else has a default that suits a method with one model for all. Most inherit
    `Averaging` or `NoisySgd` and change one thing.

    Example:
        see `sordino.methods.dp_fedprox.DpFedProx`, or "Add a method" in CONTRIBUTING.md
    """

    @property
    @abstractmethod
    def unit(self) -> Unit:
        """Whose contribution is clipped and hidden: one `example`, or everything of one `client`."""

    @property
    @abstractmethod
    def uses(self) -> Uses:
        """Whether the server needs every upload (`each`) or only their `sum`."""

    @property
    @abstractmethod
    def job(self) -> Job:
        """What clients do in their turn."""

    @abstractmethod
    def round(self, number: int, state: State, federation: Federation) -> State:
        """One round, from 0 on: ask clients for something by a verb of the federation, and return the next state.

        `state["model"]` is the model, as one flat tensor; other entries are the method's own.
        """

    @property
    def job_kinds(self) -> tuple[type, ...]:
        """Kinds of work that `round` hands to the verbs besides `job`, as frozen dataclasses; clients elsewhere do no other."""
        return ()

    @property
    def protected(self) -> bool:
        """Whether it claims any privacy at all."""
        return True

    @property
    def pooled(self) -> bool:
        """Whether all rows lie in one place, with the server."""
        return False

    @property
    def uncovered(self) -> str:
        """What an upload shows that no noise covers, as a reason; nothing for methods with a guarantee."""
        return ""

    @property
    def server_period(self) -> int:
        """After how many rounds the server has more to do than usual, for time estimates; 1 where all rounds are alike."""
        return 1

    def for_rounds(self, rounds: int) -> Self:
        """The same method with settings worked out that depend on how long the run is."""
        return self

    def for_sizes(self, sizes: Sequence[int]) -> Self:
        """The same method with batches worked out, where they are left to it, from every client's number of rows."""
        return self

    def for_steps(self, facts: StepFacts) -> Self:
        """The same method with steps worked out, where they are left to it, once the noise is known; prices stay."""
        return self

    def check(self, net: Net, shared: FlatSpace) -> None:
        """Refuse a model, or settings that do not go with it, before anything is trained."""
        return

    def plan_facts(self, rounds: int) -> dict[str, str]:
        """What a plan should say of this method besides noise and cost."""
        return {}

    def upload_numbers(self, space: FlatSpace) -> float:
        """How many numbers one upload sends."""
        return space.size

    def public_figures(self, state: State) -> dict[str, float]:
        """Numbers worth a line in the metrics that are made of released values alone."""
        return {}

    # What follows is for methods whose clients end up with a model of their own.

    @property
    def personalised(self) -> bool:
        """Whether clients end up with models of their own, which no ε covers."""
        return False

    @property
    def keeps_state(self) -> bool:
        """Whether clients keep anything from one turn to the next."""
        return False

    @property
    def head_stays_home(self) -> bool:
        """Whether the head is personal and only the rest is shared."""
        return False

    def first_personal(self, net: Net) -> Tensor:
        """What a client has of its own before its first turn; made from public values alone."""
        return torch.empty(0)

    def personalise(self, state: State, own: Tensor, examples: Examples, context: ClientContext) -> None:
        """Make `context.net` the model that this client uses."""
        context.space.write(context.net, state["model"])

    def welcome(self, state: State, first: Tensor, examples: Examples, context: ClientContext) -> None:
        """Make `context.net` the model of a client that joins when training is over."""
        self.personalise(state, first, examples, context)


METHODS: Registry[type[Method]] = Registry(
    "method",
    "sordino.methods",
    Method,
    Advice(
        base="Averaging",
        names={"job": "add LocalSgd as a base, and `@property` with `def job(self): return self`"},
    ),
)
