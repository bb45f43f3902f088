"""The contract of a sampler: whom it draws is what it tells the accountant."""

from __future__ import annotations

import numpy as np
from scipy.stats import binom

from sordino.privacy.event_kinds import GaussianDpEvent, PoissonSampledDpEvent, SampledWithoutReplacementDpEvent
from sordino.privacy.noise import SeededNoise
from sordino.privacy.samplers import SAMPLERS, CohortSampler
from sordino.testing.broken import demand
from sordino.testing.tables import Table

TINY_CHANCE = 1e-6
CLIENTS, ROUNDS, COHORT = 30, 300, 5


def check_the_draw(table: Table) -> None:
    """A cohort is in order, from the pool whose turn it is, and fits the seats; drawn again it is the same."""
    sampler = _made(table, participation_cap=ROUNDS // 2, bounded=True)
    for number in range(10):
        cohort = sampler.draw(number, SeededNoise(2))
        demand(
            set(cohort.tolist()) <= set(sampler.pool(number).tolist()), f"Round {number} drew from outside its pool."
        )
        demand(len(cohort) <= sampler.seats, f"Round {number} drew {len(cohort)} for {sampler.seats} seats.")
        demand(bool(np.all(np.diff(cohort) > 0)), f"Round {number} drew {cohort.tolist()}, not each once and in order.")
        again = sampler.draw(number, SeededNoise(2))
        demand(cohort.tolist() == again.tolist(), f"Round {number} was drawn otherwise the second time.")


def check_the_sampling_event(table: Table) -> None:
    """Every client is drawn as often as the event says; more often would cost more than is charged."""
    sampler = _made(table)
    rate = _told_rate(sampler)
    counts = sum(np.bincount(sampler.draw(number, SeededNoise(3)), minlength=CLIENTS) for number in range(ROUNDS))
    most = int(np.max(counts))
    demand(
        rate == 1.0 or most <= binom(ROUNDS, rate).ppf(1 - TINY_CHANCE),
        f"The event says that a client is drawn at rate {rate:.3g}, but one was drawn in {most} of {ROUNDS} rounds.",
    )


SAMPLER_CHECKS = (check_the_draw, check_the_sampling_event)


def _made(table: Table, *, participation_cap: int | None = None, bounded: bool = False) -> CohortSampler:
    return SAMPLERS[table["name"]](
        clients=CLIENTS, rounds=ROUNDS, expected_cohort=COHORT, participation_cap=participation_cap, bounded=bounded
    )


def _told_rate(sampler: CohortSampler) -> float:
    event = sampler.event(GaussianDpEvent(1.0))
    if isinstance(event, PoissonSampledDpEvent):
        return event.sampling_probability
    if isinstance(event, SampledWithoutReplacementDpEvent):
        return event.sample_size / event.source_dataset_size
    return 1.0
