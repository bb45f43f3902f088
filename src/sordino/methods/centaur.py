"""CENTAUR (DP-FedRep): a shared private extractor under personal heads; and heads alone, its control, by a name of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from sordino.data.examples import Examples
from sordino.methods.method import METHODS, Broadcast, ClientContext, Federation, State, Turn
from sordino.methods.two_phase import TwoPhase
from sordino.models import FlatSpace

NOTHING = torch.zeros(0, dtype=torch.int64)


@METHODS.register("centaur")
@dataclass(frozen=True, kw_only=True)
class Centaur(TwoPhase):
    """Client-level DP with personal heads: each client tunes its head, then the shared extractor under it (DP-FedRep).

    With extractor = "frozen" clients have their heads alone (`heads-alone`), over the extractor as it started. Heads are tuned in the
    same turns by the same steps, and uploads have no numbers; rounds are charged all the same, so the ledger's ε is an upper bound.
    """

    extractor: Literal["shared", "frozen"] = "shared"
    """Whether the extractor is learnt together, or stays as it started and nothing is shared: the control of every comparison."""

    @property
    def _alone(self) -> bool:
        return self.extractor == "frozen"

    def upload_numbers(self, space: FlatSpace) -> float:
        return 0 if self._alone else super().upload_numbers(space)

    def plan_facts(self, rounds: int) -> dict[str, str]:
        return (
            {"sharing": "none: clients have their heads alone, and are charged as if they shared"}
            if self._alone
            else {}
        )

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
    """

    extractor: Literal["frozen"] = "frozen"
    """There is no other value: nothing is shared."""
