"""The server step of the DP-FedAvg family: add the mean of clipped, noised updates over a fixed denominator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from sordino.core import Unit
from sordino.methods.local_sgd import LocalSgd
from sordino.methods.method import Broadcast, Federation, Method, State
from sordino.privacy.pricing import Uses
from sordino.settings import Positive


@dataclass(frozen=True, kw_only=True)
class Averaging(Method, LocalSgd):
    """Client-level averaging, to build methods on: clients train by `LocalSgd`, the server adds the mean of their noisy updates.

    Override `gradients` or `run` to change what clients do, `server_step` to change what the server makes of the noisy sum.

    Formal guarantee: the model depends on the uploads through their noisy sum alone, over a fixed denominator.

    Example:
        `class DpFedAvgM(Averaging)` overrides `server_step` to move with momentum.
    """

    server_learning_rate: Positive = 1.0
    """By what the mean update is multiplied before it is added to the model."""

    unit: ClassVar[Unit] = "client"
    uses: ClassVar[Uses] = "sum"

    @property
    def job(self) -> LocalSgd:
        return self

    def round(self, number: int, state: State, federation: Federation) -> State:
        total = federation.collect_sum(number, Broadcast.of(state["model"]), self.job)
        return self.server_step(state, total.value, federation.expected_cohort)

    def server_step(self, state: State, total: Tensor, cohort: float) -> State:
        """The state after a round: post-processing of the noisy sum of updates over an expected cohort of so many clients."""
        return {**state, "model": state["model"] + self.server_learning_rate / cohort * total}
