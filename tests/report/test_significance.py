"""The paired tests: ties are called ties at the nominal rate, and what is there is found."""

import numpy as np
import pytest
from scipy.stats import ttest_rel

from sordino.report.comparison.significance import LEVEL, differences, holm, paired_p


def trial(random, means, *, seeds, noise=0.01, shared=0.05):
    """Figures of contestants with these true means; a seed's own luck is shared by all."""
    luck = random.normal(0, shared, seeds)
    return {
        f"{number}": dict(enumerate(mean + luck + random.normal(0, noise, seeds))) for number, mean in enumerate(means)
    }


def share_of_trials(times, means, *, seeds, found):
    random = np.random.default_rng(20)
    return sum(found(differences(trial(random, means, seeds=seeds))) for _ in range(times)) / times


def any_found(pairs):
    return any(pair.more_than_noise for pair in pairs)


def allowed(times):
    """The level, and three deviations of a count of so many trials."""
    return 3 * (LEVEL * (1 - LEVEL) / times) ** 0.5


@pytest.mark.parametrize("seeds", [3, 5])
def test_two_that_are_alike_are_told_apart_at_the_nominal_rate(seeds):
    times = 4000
    assert share_of_trials(times, [0.8, 0.8], seeds=seeds, found=any_found) == pytest.approx(LEVEL, abs=allowed(times))


@pytest.mark.parametrize("contestants", [3, 6])
def test_many_that_are_alike_are_told_apart_no_more_often(contestants):
    times = 1500
    share = share_of_trials(times, [0.8] * contestants, seeds=5, found=any_found)
    assert share < LEVEL + allowed(times)


def test_a_difference_that_is_there_is_found_and_others_are_not_seen_instead():
    def right(pairs):
        real = [pair for pair in pairs if "0" in (pair.first, pair.second)]
        return all(pair.more_than_noise and pair.first == "0" for pair in real)

    def wrong(pairs):
        return any(pair.more_than_noise for pair in pairs if "0" not in (pair.first, pair.second))

    times = 800
    means = [0.85, 0.8, 0.8]
    assert share_of_trials(times, means, seeds=5, found=right) > 0.9
    assert share_of_trials(times, means, seeds=5, found=wrong) < LEVEL + allowed(times)


def test_the_statistic_is_that_of_a_peer():
    random = np.random.default_rng(3)
    for seeds in (2, 3, 10):
        one, other = random.normal(size=(2, seeds))
        assert paired_p(list(one - other)) == pytest.approx(ttest_rel(one, other).pvalue)


def test_differences_without_any_spread_are_not_taken_for_certainty():
    assert paired_p([0.0, 0.0, 0.0]) == 1.0
    assert paired_p([0.25, 0.25, 0.25]) == 0.25
    assert paired_p([0.3 - 0.2, 0.5 - 0.4, 0.1]) == 0.25


def test_holm_corrects_each_for_those_that_are_left():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


def test_only_seeds_that_both_have_are_paired():
    (pair,) = differences({"a": {1: 0.5, 2: 0.6, 3: 0.9}, "b": {2: 0.5, 3: 0.7}})
    assert (pair.first, pair.pairs, pair.mean) == ("a", 2, pytest.approx(0.15))
    (alone,) = differences({"a": {1: 0.5}, "b": {1: 0.4}})
    assert (alone.p, alone.corrected, alone.more_than_noise) == (None, None, False)
