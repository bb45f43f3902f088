"""DP-FedAvg-fb: DP-FedAvg on the whole model, whose head every client tunes for itself afterwards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from sordino.data.examples import Examples
from sordino.methods.averaging import Averaging
from sordino.methods.method import METHODS, ClientContext, State
from sordino.methods.personal import Personalised


@METHODS.register("dp-fedavg-fb")
@dataclass(frozen=True, kw_only=True)
class DpFedAvgFb(Personalised, Averaging):
    """DP-FedAvg whose released model each client tunes in the head before use; tuned heads are not kept."""

    keeps_state: ClassVar[bool] = False

    def personalise(self, state: State, own: Tensor, examples: Examples, context: ClientContext) -> None:
        self.welcome(state, own, examples, context)
