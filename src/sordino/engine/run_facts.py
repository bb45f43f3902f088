"""What is public of a run before it begins, for tunings that decide by data."""

from __future__ import annotations

from collections.abc import Sequence

from sordino.engine.pricing import make_clip
from sordino.engine.resolved import Resolved
from sordino.engine.tariff import Tariff
from sordino.tuning.survey import NoiseFacts, RunFacts


def run_facts(resolved: Resolved, sizes: Sequence[int]) -> RunFacts:
    """What is known before the noise is worked out."""
    return RunFacts(
        rounds=resolved.experiment.rounds,
        sizes=sizes,
        neighbours=resolved.privacy.neighbours,
        budgets=resolved.budgets,
        job=resolved.method.job,
        clip=make_clip(resolved),
    )


def noise_facts(resolved: Resolved, tariff: Tariff, sizes: Sequence[int]) -> NoiseFacts:
    """The same with the noise of the training."""
    return NoiseFacts(
        **vars(run_facts(resolved, sizes)),
        multipliers=[tariff.multiplier(client) for client in range(len(sizes))],
        noise=tariff.mechanism.noise,
        cohort_share=tariff.sampler.expected_cohort / len(sizes),
        delta=resolved.privacy.delta,
        client_epsilons=_client_epsilons(resolved, len(sizes)),
    )


def _client_epsilons(resolved: Resolved, clients: int) -> tuple[float, ...]:
    privacy = resolved.privacy
    own = privacy.client_budgets(clients)
    return own or (() if privacy.epsilon is None else (privacy.epsilon,) * clients)
