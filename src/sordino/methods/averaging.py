"""The server step of the DP-FedAvg family: add the mean of clipped, noised updates over a fixed denominator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sordino.core import Unit
from sordino.methods.local_sgd import LocalSgd
from sordino.methods.method import Broadcast, Federation, Method, State
from sordino.privacy.pricing import Uses
from sordino.settings import Positive


@dataclass(frozen=True, kw_only=True)
class Averaging(Method, LocalSgd):
    """Client-level averaging.

    Formal guarantee: the model depends on the uploads through their noisy sum alone, over a fixed denominator.
    """

    server_learning_rate: Positive = 1.0

    unit: ClassVar[Unit] = "client"
    uses: ClassVar[Uses] = "sum"

    @property
    def job(self) -> LocalSgd:
        return self

    def round(self, number: int, state: State, federation: Federation) -> State:
        total = federation.collect_sum(number, Broadcast.of(state["model"]), self.job)
        step = self.server_learning_rate / federation.expected_cohort
        return {**state, "model": state["model"] + step * total.value}
