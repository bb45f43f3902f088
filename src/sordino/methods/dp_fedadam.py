"""DP-FedAdam: Adam's steps of the server over released sums."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from sordino.methods.averaging import Averaging
from sordino.methods.method import METHODS, State
from sordino.settings import Momentum, Positive


@METHODS.register("dp-fedadam")
@dataclass(frozen=True, kw_only=True)
class DpFedAdam(Averaging):
    """DP-FedAvg whose server takes Adam's steps on the noisy mean (FedAdam).

    With Δ the noisy mean of updates, m ← beta1·m + (1 − beta1)·Δ, v ← beta2·v + (1 − beta2)·Δ², and the model moves by
    server_learning_rate·m / (√v + tau), as in arXiv:2003.00295, without bias correction. With beta1 = 0, beta2 = 1 and tau = 1
    this is DP-FedAvg, bit for bit. Coordinates that hold mostly noise have a v of about the noise's variance, so a tau of the
    noise's size (noise_multiplier·clip_norm / expected cohort) keeps them from being blown up.

    Formal guarantee: that of DP-FedAvg; both moments are made of released sums, so they are post-processing.
    """

    server_learning_rate: Positive = 0.01
    beta1: Momentum = 0.9
    beta2: Annotated[float, Field(ge=0, le=1)] = 0.99
    tau: Positive = 1e-3
    """How much is added to √v, in units of an update: the smaller, the more every coordinate moves alike."""

    def server_step(self, state: State, total: Tensor, cohort: float) -> State:
        first, second = (state.get(name, torch.zeros_like(total)) for name in ("first_moment", "second_moment"))
        first = self.beta1 * first + (1 - self.beta1) * total
        second = self.beta2 * second + (1 - self.beta2) * (total / cohort).square()
        moved = super().server_step(state, first / (second.sqrt() + self.tau), cohort)
        return {**moved, "first_moment": first, "second_moment": second}
