"""DP-SGD: every step clips each example's gradient and adds noise; in one place, or inside each client with averaging."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import ClassVar, Literal

from sordino.core import Unit
from sordino.methods.method import METHODS, Broadcast, Federation, State
from sordino.methods.noisy_sgd import NoisySgd
from sordino.privacy.pricing import Uses
from sordino.settings import Positive


@METHODS.register("dp-sgd")
@dataclass(frozen=True, kw_only=True)
class DpSgd(NoisySgd):
    """Example-level DP: noisy steps on Poisson batches, in one place or inside each client with averaging.

    FedSGD is batch_size = "full" with one local step: every client's mean clipped gradient, with its own noise. `beta`
    stands for a learning rate of β/√T over T rounds.

    Formal guarantee: that of every client's noisy steps; averaging them is post-processing.
    """

    where: Literal["one-place", "clients"] = "clients"
    beta: Positive | None = None

    unit: ClassVar[Unit] = "example"
    uses: ClassVar[Uses] = "each"
    protected: ClassVar[bool] = True

    @property
    def pooled(self) -> bool:
        return self.where == "one-place"

    def for_rounds(self, rounds: int) -> DpSgd:
        """The same method with its learning rate worked out for a run of so many rounds."""
        if self.beta is None:
            return self
        return dataclasses.replace(self, learning_rate=self.beta / math.sqrt(rounds), beta=None)

    @property
    def job(self) -> NoisySgd:
        return self

    def round(self, number: int, state: State, federation: Federation) -> State:
        """Average the cohort's models by their public sizes; whoever is absent keeps the global model's share."""
        uploads = federation.collect_models(number, Broadcast.of(state["model"]), self)
        everyone = sum(federation.sizes)
        expected_share = federation.expected_cohort / len(federation.sizes)
        model = state["model"].clone()
        for upload in uploads:
            weight = federation.sizes[upload.client] / everyone / expected_share
            model += weight * (upload.value.value - state["model"])
        return {**state, "model": model}
