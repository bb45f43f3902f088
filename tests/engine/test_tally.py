"""Rounds of a federation whose clip moves: the noise on sums and counts, wherever it is drawn."""

import itertools
import math

import pytest
import torch
from scipy.stats import chi2

from sordino.audit.watched import watched_federation
from sordino.core import Private
from sordino.data.examples import IDENTITY, Examples
from sordino.engine.resolved import resolve
from sordino.experiment import experiment
from sordino.methods.method import Broadcast

CLIENTS, ROUNDS, NUMBERS = 4, 250, 40
COUNT_NOISE, Z = 1.5, 0.8


class Silent:
    """Updates of zero: all are within any clip."""

    def run(self, start, examples, context):
        return torch.zeros_like(start)


def rounds_of(noise, sampler="everyone", cohort=CLIENTS):
    mechanism = {"name": "adaptive-clip", "count_noise": COUNT_NOISE, "quantile": 0.5, "clip_learning_rate": 0.2}
    privacy = {"noise_multiplier": Z, "clip_norm": 3.0, "noise": noise, "sampler": sampler, "mechanism": mechanism}
    table = experiment(
        {
            "rounds": ROUNDS,
            "data": {"source": "digits", "clients": CLIENTS},
            "model": {"name": "logistic"},
            "method": {"name": "dp-fedavg"},
            "privacy": {**privacy, "expected_cohort": cohort},
        }
    )
    row = Examples(inputs=torch.zeros(1, 1), labels=torch.zeros(1, dtype=torch.int64), normalisation=IDENTITY)
    sums, bounds, present = [], [], []
    with watched_federation(
        table,
        resolve(table).method,
        [Private(row)] * CLIENTS,
        sizes=[1] * CLIENTS,
        features=1,
        watch=lambda *seen: None,
    ) as federation:
        for number in range(ROUNDS):
            bounds.append(federation.clip_norm)
            present.append(len(federation.tariff.sampler.draw(number, federation.door.source)))
            sums.append(federation.collect_sum(number, Broadcast.of(torch.zeros(NUMBERS)), Silent()).value)
        bounds.append(federation.clip_norm)
        seats = federation.tariff.sampler.seats
    moves = [math.log(after / before) for before, after in itertools.pairwise(bounds)]
    counts = [(0.5 - move / 0.2) * cohort - here for move, here in zip(moves, present, strict=True)]
    scaled = torch.cat([total.double() / bound for total, bound in zip(sums, bounds, strict=False)])
    return scaled, torch.tensor(counts, dtype=torch.float64), seats


def fits(values, scale):
    """Whether the variance fits, at a false-alarm rate of one in ten thousand on either side."""
    statistic = float((values / scale).square().sum())
    return chi2.ppf(1e-4, len(values)) < statistic < chi2.ppf(1 - 1e-4, len(values))


@pytest.mark.parametrize("noise", ["central", "distributed", "local"])
def test_sums_and_counts_have_their_noise_whatever_the_clip(noise):
    sums, counts, seats = rounds_of(noise)
    shares = math.sqrt(seats) if noise == "local" else 1.0
    assert fits(sums, Z * shares)
    assert not fits(sums, Z * shares * 1.1)
    assert fits(counts, COUNT_NOISE * shares)
    assert not fits(counts, COUNT_NOISE * shares * 1.5)
    assert not fits(counts, COUNT_NOISE * shares / 1.5)


def test_empty_seats_bring_their_share_of_both_noises():
    sums, counts, _ = rounds_of("distributed", sampler="poisson", cohort=2)
    assert fits(sums, Z)
    assert fits(counts, COUNT_NOISE)
