"""AdpAlloc: noise that decays as training goes on (doi:10.1109/SP.2019.00019)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from sordino.privacy.mechanisms import MECHANISMS, UPDATE, Gaussian, Part
from sordino.privacy.stages import Stages, blocks, one_stage
from sordino.settings import AtLeastOne, NotNegative


@MECHANISMS.register("noise-schedule")
@dataclass(frozen=True, kw_only=True)
class NoiseSchedule(Gaussian):
    """Gaussian, with a multiplier that decays over the rounds as z₀·exp(−decay·t) (AdpAlloc).

    Formal guarantee: each round is priced at its own multiplier, and the target ε is met by the list of all rounds.
    """

    decay: NotNegative = 0.01
    every: AtLeastOne = 1
    """Rounds for which the multiplier stays the same; an epoch of the paper is as many rounds as pass over the data."""

    def stage(self, round_number: int) -> int:
        return round_number // self.every if self.decay else 0

    def stages(self, rounds: range) -> Stages:
        return blocks(rounds, self.every) if self.decay else one_stage(rounds)

    def parts(self, noise_multiplier: float, *, bound: float, stage: int, expected_units: float) -> tuple[Part, ...]:
        now = noise_multiplier * math.exp(-self.decay * stage)
        return (Part(name=UPDATE, clip_bound=bound, noise_multiplier=now),)
