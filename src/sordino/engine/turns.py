"""What other turns would bring: the error that a model's noise adds up to, predicted for other participation caps."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass

from sordino.core import SordinoError
from sordino.engine.pricing import make_tariff
from sordino.engine.resolved import Resolved
from sordino.engine.tariff import Tariff
from sordino.privacy.mechanisms import MECHANISMS


@dataclass(frozen=True, kw_only=True)
class Turns:
    """A participation cap, or none with independent noise, and what is predicted for it."""

    cap: int | None
    cohort: float
    error: float
    """Of the sum of all rounds' mean updates, in multiples of the clip: noise multiplier · error of sums / cohort."""

    @staticmethod
    def of(cap: int | None, tariff: Tariff) -> Turns:
        sampler = tariff.sampler
        error = tariff.noise_multiplier * tariff.mechanism.sum_error(sampler.rounds) / sampler.expected_cohort
        return Turns(cap=cap, cohort=sampler.expected_cohort, error=error)

    def __str__(self) -> str:
        name = "none, with independent noise" if self.cap is None else str(self.cap)
        return f"{name}: {self.error:.3g}, {self.cohort:g} clients a round"


def turn_facts(resolved: Resolved, tariff: Tariff, *, sizes: Sequence[int]) -> dict[str, str]:
    """What a plan says of a mechanism that trades turns for noise, where a target ε is given.

    The more rounds between two turns of a client, the fewer its participations and the longer noise is correlated, but the
    less sampling amplifies.
    """
    if not tariff.mechanism.weighs_turns or resolved.privacy.epsilon is None:
        return {}
    own = Turns.of(resolved.privacy.participation_cap, tariff)
    caps = _other_caps(resolved, len(sizes)) - {own.cap}
    others = [turns for cap in caps for turns in _predicted(resolved, cap, tariff, sizes)]
    least = min((own, *others), key=lambda turns: turns.error)
    return {"turns": _sentence(own, sorted(others, key=lambda turns: -(turns.cap or math.inf)), least)}


def _other_caps(resolved: Resolved, clients: int) -> set[int | None]:
    """Turns twice, four times, ... as far apart, while there are clients enough; and none."""
    rounds, cohort = resolved.experiment.rounds, resolved.privacy.expected_cohort or 1
    most = min(rounds, int(clients / cohort))
    return {None, *(math.ceil(rounds / 2**power) for power in range(1, most.bit_length()))}


def _predicted(resolved: Resolved, cap: int | None, tariff: Tariff, sizes: Sequence[int]) -> list[Turns]:
    """What is predicted at the same ε under another cap; nothing where there is no such plan."""
    privacy = resolved.privacy.model_copy(update={"participation_cap": cap})
    other = dataclasses.replace(
        resolved,
        experiment=resolved.experiment.model_copy(update={"privacy": privacy}),
        mechanism=resolved.mechanism if cap else MECHANISMS["gaussian"](),
    )
    try:
        return [Turns.of(cap, make_tariff(other, clients=len(sizes), sizes=sizes, before=tariff.before))]
    except SordinoError:
        return []


def _sentence(own: Turns, others: Sequence[Turns], least: Turns) -> str:
    rest = "".join(f"; {turns}" for turns in others)
    return f"predicted error of the model, in clips, by participation_cap: {own} (this plan){rest}; least at {least.cap or 'none'}"
