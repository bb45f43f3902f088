"""Settings of a method that nobody gave, worked out in two steps: from the clients' sizes, and then from the noise."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from sordino.engine.resolved import Resolved
from sordino.engine.tariff import Tariff
from sordino.methods.sensible import StepFacts


def with_batches(resolved: Resolved, sizes: Sequence[int]) -> Resolved:
    """The same run with every batch settled, which the price depends on; `sizes` are rows per client."""
    return dataclasses.replace(resolved, method=resolved.method.for_sizes(sizes))


def with_steps(resolved: Resolved, tariff: Tariff, sizes: Sequence[int], *, parameters: int) -> Resolved:
    """The same run with every step settled, which the noise decides; nothing here changes what is paid."""
    if tariff.steps is None:
        return resolved
    facts = StepFacts(
        rounds=resolved.experiment.rounds,
        local_steps=tariff.steps.local_steps,
        clip_norm=tariff.clip.bound,
        noise=_noise_of_mean(tariff, sizes),
        parameters=parameters,
    )
    return dataclasses.replace(resolved, method=resolved.method.for_steps(facts))


def _noise_of_mean(tariff: Tariff, sizes: Sequence[int]) -> float:
    """The noise in a coordinate of the gradient averaged over a cohort by rows, as a deviation over the clip norm."""
    assert tariff.steps is not None
    own = (tariff.price(client, 0).noise_multiplier / tariff.steps.rate(size) for client, size in enumerate(sizes))
    absent = len(sizes) / tariff.sampler.expected_cohort
    return math.sqrt(absent * sum(deviation**2 for deviation in own)) / sum(sizes)
