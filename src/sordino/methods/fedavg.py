"""Federated averaging without privacy: the upper limit that private methods are measured against."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sordino.core import Unit
from sordino.methods.local_sgd import LocalSgd
from sordino.methods.method import METHODS, Broadcast, Federation, Method, State
from sordino.methods.model_average import mean_by_size
from sordino.privacy.pricing import Uses


@METHODS.register("fedavg")
@dataclass(frozen=True, kw_only=True)
class FedAvg(Method, LocalSgd):
    """FedAvg without privacy; its ε is infinite in every view."""

    unit: ClassVar[Unit] = "client"
    uses: ClassVar[Uses] = "each"
    protected: ClassVar[bool] = False

    @property
    def job(self) -> LocalSgd:
        return self

    def round(self, number: int, state: State, federation: Federation) -> State:
        uploads = federation.collect_each(number, Broadcast.of(state["model"]), self.job)
        return {**state, "model": state["model"] + mean_by_size(uploads, federation)} if uploads else state
