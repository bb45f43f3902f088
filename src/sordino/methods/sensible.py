"""Settings of noisy steps that nobody gave, worked out from what is public of a run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

BATCH = 2048
"""Rows of a client that a step sees, on average, where nobody says: all of them up to here, the same share of all beyond."""

REACH, STRIDE, WOBBLE = 180.0, 3.0, 10.0
"""How far all steps go together, one step, and their noise: norms in the space of parameters."""


@dataclass(frozen=True, kw_only=True)
class StepFacts:
    """What is public of a run's noisy steps once their noise is known.

    Args:
        rounds: of the whole run.
        local_steps: that a client takes in a round.
        clip_norm: the largest norm of one example's gradient.
        noise: the standard deviation of the noise in each coordinate of an averaged clipped gradient, over the clip norm.
        parameters: how many numbers are trained.
    """

    rounds: int
    local_steps: int
    clip_norm: float
    noise: float
    parameters: int

    @property
    def steps(self) -> int:
        """Of the whole run."""
        return self.rounds * self.local_steps

    def pace(self, momentum: float) -> float:
        """The learning rate, as a mean over the run: docs/studies/defaults.md has how the three constants were chosen.

        Clipped gradients move the model by at most steps times rate times clip norm. All of that is `REACH`, but no step is longer
        than `STRIDE`, and the noise of all steps together has a norm of `WOBBLE` at the most.
        """
        wobble = self.noise * math.sqrt(self.steps * self.parameters)
        mean = min(REACH / self.steps, STRIDE, WOBBLE / wobble if wobble else math.inf)
        return (1 - momentum) * mean / self.clip_norm


def share_of_rows(sizes: Sequence[int]) -> float:
    """The share of its rows that each client puts into a batch: one for all clients, so that all pay alike."""
    return min(1.0, BATCH * len(sizes) / sum(sizes))
