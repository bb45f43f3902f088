"""DP-FedAvgM: heavy-ball momentum of the server over released sums."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from sordino.methods.averaging import Averaging
from sordino.methods.method import METHODS, State
from sordino.settings import Momentum


@METHODS.register("dp-fedavgm")
@dataclass(frozen=True, kw_only=True)
class DpFedAvgM(Averaging):
    """DP-FedAvg whose server moves with momentum over the rounds (FedAvgM).

    v ← server_momentum·v + noisy sum, and the model moves by server_learning_rate·v / expected cohort (arXiv:1909.06335). With
    server_momentum = 0 this is DP-FedAvg, bit for bit. A long run moves 1 / (1 − server_momentum) times as far for a steady update,
    so lower the server_learning_rate with it.

    Formal guarantee: that of DP-FedAvg; the velocity is made of released sums, so it is post-processing.
    """

    server_momentum: Momentum = 0.9

    def server_step(self, state: State, total: Tensor, cohort: float) -> State:
        velocity = self.server_momentum * state.get("velocity", torch.zeros_like(total)) + total
        return {**super().server_step(state, velocity, cohort), "velocity": velocity}
