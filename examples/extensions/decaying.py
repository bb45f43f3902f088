"""DP-FedAvg whose server takes shorter and shorter steps. One file, beside its experiment, outside the package."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from sordino.extend import Averaging, NotNegative, State


@dataclass(frozen=True, kw_only=True)
class Decaying(Averaging):
    """DP-FedAvg with server steps that shrink as 1 / (1 + decay · round), so that the last noise moves the model least.

    Formal guarantee: that of DP-FedAvg; a public number times what was released is post-processing.
    """

    decay: NotNegative = 0.05
    """By how much the divisor grows with every round; 0 is DP-FedAvg."""

    def server_step(self, state: State, total: Tensor, cohort: float) -> State:
        done = state.get("rounds_done", torch.zeros(()))
        after = super().server_step(state, total / (1 + self.decay * done), cohort)
        return {**after, "rounds_done": done + 1}
