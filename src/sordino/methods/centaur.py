"""CENTAUR (DP-FedRep): a shared private extractor under personal heads; and heads alone, its control, by a name of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from sordino.core import SordinoError
from sordino.data.examples import Examples
from sordino.methods.idle import changed, in_words
from sordino.methods.local_sgd import LOCAL_SETTINGS
from sordino.methods.method import METHODS, Broadcast, ClientContext, Federation, State, Turn
from sordino.methods.two_phase import TwoPhase
from sordino.models import FlatSpace, Net

NOTHING = torch.zeros(0, dtype=torch.int64)
OF_THE_EXTRACTOR = (*LOCAL_SETTINGS, "server_learning_rate")
"""Settings that heads alone have no use for."""


@METHODS.register("centaur")
@dataclass(frozen=True, kw_only=True)
class Centaur(TwoPhase):
    """Client-level DP with personal heads: each client tunes its head, then the shared extractor under it (DP-FedRep).

    With extractor = "frozen" clients have their heads alone (`heads-alone`), over the extractor as it started. Heads are tuned in the
    same turns by the same steps, and uploads have no numbers; rounds are charged all the same, so the ledger's ε is an upper bound.
    Settings of the extractor's training (epochs, batch_size, learning_rate, momentum, weight_decay, full_batch and
    server_learning_rate) then do nothing, and the plan names those that were changed.
    """

    extractor: Literal["shared", "frozen"] = "shared"
    """Whether the extractor is learnt together, or stays as it started and nothing is shared: the control of every comparison."""

    @property
    def _alone(self) -> bool:
        return self.extractor == "frozen"

    def upload_numbers(self, space: FlatSpace) -> float:
        return 0 if self._alone else super().upload_numbers(space)

    def plan_facts(self, rounds: int) -> dict[str, str]:
        if not self._alone:
            return {}
        idle = changed(self, OF_THE_EXTRACTOR)
        said = (
            f"; {in_words(idle)} {'does' if len(idle) == 1 else 'do'} nothing, as no extractor is trained"
            if idle
            else ""
        )
        return {"sharing": f"none: clients have their heads alone, and are charged as if they shared{said}"}

    def check(self, net: Net, shared: FlatSpace) -> None:
        if self._alone and net.parts()["head"] and not shared.size:
            raise SordinoError(
                "Heads alone are charged as if an extractor were shared, so there must be one, but got a model or tuning that trains the "
                "head alone; choose a model with a body such as 'mlp' or 'cnn', and tuning = 'full', with which heads are still all that "
                "is tuned."
            )
        super().check(net, shared)

    def turn(self, start: Tensor, own: Tensor, examples: Examples, context: ClientContext) -> Turn:
        if not self._alone:
            return super().turn(start, own, examples, context)
        return Turn(update=start.new_zeros(0), personal=self.tuned_head(start, own, examples, context))

    def round(self, number: int, state: State, federation: Federation) -> State:
        if not self._alone:
            return super().round(number, state, federation)
        federation.collect_sum(number, Broadcast.of(state["model"], wanted=NOTHING), self.job)
        return state


@METHODS.register("heads-alone")
@dataclass(frozen=True, kw_only=True)
class HeadsAlone(Centaur):
    """The control of personal methods: clients tune their own heads over the extractor as it started, and share nothing.

    Formal guarantee: uploads have no numbers. Rounds are charged as CENTAUR's are, so the ledger's ε is an upper bound of zero.
    The settings are CENTAUR's, so that one file compares the two.
    """

    unused: ClassVar[tuple[str, ...]] = OF_THE_EXTRACTOR
    """What the reference says of these settings: that they do nothing."""

    extractor: Literal["frozen"] = "frozen"
    """There is no other value: nothing is shared."""
