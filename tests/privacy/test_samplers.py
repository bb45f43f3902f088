"""Samplers draw what their accounting event says."""

from collections import Counter

import numpy as np
import pytest
from scipy import stats

from sordino.core import SordinoError
from sordino.privacy.coins import FreshCoins
from sordino.privacy.event_kinds import GaussianDpEvent, PoissonSampledDpEvent, SampledWithoutReplacementDpEvent
from sordino.privacy.noise import SeededNoise
from sordino.privacy.samplers import SAMPLERS, Everyone, FixedSize, Poisson, poisson_batch

SOURCE = SeededNoise(7)
INNER = GaussianDpEvent(1.0)


def draws(sampler, rounds=400):
    return [sampler.draw(t, SOURCE) for t in range(rounds)]


def test_poisson_cohorts_have_binomial_sizes_and_even_odds():
    sampler = Poisson(clients=50, rounds=2000, expected_cohort=5)
    cohorts = draws(sampler, 2000)
    sizes = [len(cohort) for cohort in cohorts]
    observed = np.bincount(sizes, minlength=51)[:13]
    expected = stats.binom(50, 0.1).pmf(np.arange(13)) * 2000
    assert (
        stats.chisquare(np.append(observed, 2000 - observed.sum()), np.append(expected, 2000 - expected.sum())).pvalue
        > 1e-4
    )
    counts = np.bincount(np.concatenate(cohorts), minlength=50)
    assert stats.chisquare(counts).pvalue > 1e-4
    assert 0 in sizes, "a Poisson cohort may be empty"


def test_poisson_tells_the_accountant_its_rate():
    assert Poisson(clients=50, rounds=9, expected_cohort=5).event(INNER) == PoissonSampledDpEvent(0.1, INNER)


def test_fixed_size_draws_exactly_that_many_without_repeats():
    sampler = FixedSize(clients=20, rounds=400, expected_cohort=4)
    cohorts = draws(sampler)
    assert all(len(cohort) == 4 == len(set(cohort.tolist())) for cohort in cohorts)
    assert stats.chisquare(np.bincount(np.concatenate(cohorts), minlength=20)).pvalue > 1e-4
    assert sampler.event(INNER) == SampledWithoutReplacementDpEvent(20, 4, INNER)


def test_everyone_comes_and_nothing_is_amplified():
    sampler = Everyone(clients=6, rounds=3, expected_cohort=6)
    assert sampler.draw(0, SOURCE).tolist() == list(range(6))
    assert sampler.event(INNER) is INNER


@pytest.mark.parametrize("name", ["poisson", "fixed-size", "everyone"])
@pytest.mark.parametrize("cap", [1, 3, 7])
def test_nobody_is_drawn_more_often_than_the_cap(name, cap):
    kind = SAMPLERS[name]
    rounds = 20
    period = -(-rounds // cap)
    sampler = kind(
        clients=100, rounds=rounds, expected_cohort=100 // period if name == "everyone" else 3, participation_cap=cap
    )
    counts = Counter(int(client) for t in range(rounds) for client in sampler.draw(t, SOURCE))
    assert max(counts.values()) <= cap
    assert all(counts[client] <= sampler.turns(client % sampler.period) <= cap for client in counts)


def test_a_bounded_poisson_cohort_never_passes_its_seats():
    sampler = Poisson(clients=200, rounds=500, expected_cohort=2, bounded=True)
    assert max(len(cohort) for cohort in draws(sampler, 500)) <= sampler.seats < 200


@pytest.mark.parametrize("cap", [None, 3, 2])
@pytest.mark.parametrize("clients", [4, 5, 9])
def test_there_are_no_more_seats_than_clients_in_the_largest_pool(clients, cap):
    sampler = Poisson(clients=clients, rounds=6, expected_cohort=1, participation_cap=cap, bounded=True)
    assert sampler.seats == min(5, max(len(sampler.pool(number)) for number in range(6)))


def test_the_same_round_is_always_drawn_the_same_way():
    sampler = Poisson(clients=50, rounds=9, expected_cohort=5)
    assert sampler.draw(3, SeededNoise(1)).tolist() == sampler.draw(3, SeededNoise(1)).tolist()
    assert [sampler.draw(t, SeededNoise(1)).tolist() for t in range(9)] != [
        sampler.draw(t, SeededNoise(2)).tolist() for t in range(9)
    ]


def test_poisson_batches_are_binomial():
    sizes = [len(poisson_batch(1000, 0.1, SOURCE, stream=t)) for t in range(500)]
    assert abs(np.mean(sizes) - 100) < 5 * np.sqrt(90 / 500)


def test_a_cohort_larger_than_the_roster_is_refused():
    with pytest.raises(SordinoError, match="at most 10 clients"):
        Poisson(clients=10, rounds=5, expected_cohort=11)
    with pytest.raises(SordinoError, match="take turns"):
        Poisson(clients=10, rounds=10, expected_cohort=5, participation_cap=2)
    with pytest.raises(SordinoError, match="whole number"):
        FixedSize(clients=10, rounds=10, expected_cohort=2.5)


def test_fresh_coins_draw_independently_of_the_old_ones():
    """Over 300 rounds, being drawn again has nothing to do with having been drawn: 540 of 6000 both times, give or take."""
    sampler, source = Poisson(clients=20, rounds=300, expected_cohort=6.0), SeededNoise(4)
    both = sum(
        len(set(sampler.draw(number, source)) & set(sampler.draw(number, FreshCoins(coins=source, repeat=1))))
        for number in range(300)
    )
    assert stats.binomtest(both, 20 * 300, 0.3**2).pvalue > 1e-3
    again = [sampler.draw(0, FreshCoins(coins=source, repeat=repeat)).tolist() for repeat in (1, 2, 1)]
    assert again[0] == again[2] != again[1]
