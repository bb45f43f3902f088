"""Noise has the distribution it claims, no less and no more, and repeats itself exactly when seeded."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from torch import Tensor

from sordino.core import SordinoError
from sordino.privacy import noise
from sordino.privacy.noise import NoiseSource, SecureNoise, SeededNoise

# Each statistical test rejects right noise once in a million draws; only the secure source draws anew in every run.
FALSE_POSITIVE_RATE = 1e-6
DRAWS = 400_000
SOURCES: list[NoiseSource] = [SeededNoise(7), SecureNoise()]
DISTRIBUTIONS = {"gaussian": stats.norm, "laplace": stats.laplace}
EXTREME_WORDS = [0, 1, -1, 1023, -1024, 2**63 - 1, -(2**63)]


def draw(source: NoiseSource, shape: str, size: int, spread: float, stream: int = 0, **settings: object) -> Tensor:
    key = "std" if shape == "gaussian" else "scale"
    values = getattr(source, shape)(size, stream=stream, **{key: spread}, **settings)
    assert isinstance(values, Tensor)
    return values


def is_rejected(sample: Tensor, shape: str, spread: float) -> bool:
    """Two-sided Kolmogorov-Smirnov: does the sample differ from the distribution with this spread?"""
    test = stats.kstest(sample.double().numpy(), DISTRIBUTIONS[shape](scale=spread).cdf)
    return bool(test.pvalue < FALSE_POSITIVE_RATE)


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.kind)
@pytest.mark.parametrize("shape", DISTRIBUTIONS)
class TestDistribution:
    @pytest.mark.parametrize("spread", [0.01, 1.0, 250.0])
    def test_right_noise_is_accepted(self, source: NoiseSource, shape: str, spread: float) -> None:
        assert not is_rejected(draw(source, shape, DRAWS, spread), shape, spread)

    def test_double_precision_is_accepted(self, source: NoiseSource, shape: str) -> None:
        sample = draw(source, shape, DRAWS, 3.0, dtype=torch.float64)
        assert sample.dtype == torch.float64
        assert not is_rejected(sample, shape, 3.0)

    @pytest.mark.parametrize("factor", [0.95, 1.05])
    def test_five_percent_off_is_rejected(self, source: NoiseSource, shape: str, factor: float) -> None:
        assert is_rejected(draw(source, shape, DRAWS, factor * 2.0), shape, 2.0)

    def test_tails_have_their_weight(self, source: NoiseSource, shape: str) -> None:
        size, limit = 2_000_000, {"gaussian": 4.0, "laplace": 10.0}[shape]
        beyond = int((draw(source, shape, size, 1.0).abs() > limit).sum())
        expected = 2 * DISTRIBUTIONS[shape].sf(limit)
        assert stats.binomtest(beyond, size, expected).pvalue > FALSE_POSITIVE_RATE

    def test_values_of_one_draw_are_uncorrelated(self, source: NoiseSource, shape: str) -> None:
        sample = draw(source, shape, 2 * noise._CHUNK, 1.0).double()
        halves = sample[: noise._CHUNK], sample[noise._CHUNK :]
        for first, second in (halves, (halves[0].square(), halves[1].square()), (sample[:-1], sample[1:])):
            assert_uncorrelated(first, second)


def assert_uncorrelated(first: Tensor, second: Tensor) -> None:
    assert stats.pearsonr(first.double().numpy(), second.double().numpy()).pvalue > FALSE_POSITIVE_RATE


@pytest.fixture
def extreme_words(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Every keystream is made of the words most likely to break a formula."""

    def extremes(words: noise._Words, count: int) -> Tensor:
        smallest = torch.iinfo(words._words.dtype).min
        return (
            torch.tensor([max(word, smallest) for word in EXTREME_WORDS][:count])
            .clamp(max=-(smallest + 1))
            .to(words._words.dtype)
        )

    monkeypatch.setattr(noise._Words, "next", extremes)
    yield len(EXTREME_WORDS)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_extreme_words_give_finite_noise_that_reaches_far(extreme_words: int, dtype: torch.dtype) -> None:
    gaussian = SeededNoise(0).gaussian(extreme_words, std=1.0, stream=0, dtype=dtype)
    laplace = SeededNoise(0).laplace(extreme_words, scale=1.0, stream=0, dtype=dtype)
    assert gaussian.isfinite().all() and laplace.isfinite().all()
    assert gaussian.abs().max() > 8.5
    assert laplace.max() > 36 and laplace.min() < -36


def test_extreme_words_stay_inside_the_unit_interval(extreme_words: int) -> None:
    values = SeededNoise(0).uniform(extreme_words, stream=0)
    assert values.min() == 0.0
    assert values.max() == 1 - 2.0**-53


def test_uniform_values_have_53_bits_and_the_right_distribution() -> None:
    values = SeededNoise(3).uniform(DRAWS, stream=1)
    assert values.dtype == torch.float64
    assert stats.kstest(values.numpy(), "uniform").pvalue > FALSE_POSITIVE_RATE
    numerators = (values * 2.0**53).to(torch.int64)
    assert torch.equal(numerators.double() * 2.0**-53, values)
    assert bool((numerators % 2 == 1).any())


def test_seeded_bytes_are_fixed_for_ever() -> None:
    assert SeededNoise(1).uniform(3, stream=2).tolist() == [
        0.20231138284516337,
        0.22599526157019123,
        0.37765338946526983,
    ]


@given(seed=st.integers(), stream=st.integers(), before=st.integers(0, 3))
def test_a_stream_repeats_whatever_was_drawn_before(seed: int, stream: int, before: int) -> None:
    source = SeededNoise(seed)
    for other in range(before):
        source.gaussian(5, std=1.0, stream=stream + other + 1)
    for shape in DISTRIBUTIONS:
        assert torch.equal(draw(source, shape, 9, 1.0, stream), draw(SeededNoise(seed), shape, 9, 1.0, stream))


@pytest.mark.parametrize("shape", DISTRIBUTIONS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_shorter_draw_begins_a_longer_one(shape: str, dtype: torch.dtype) -> None:
    chunk = noise._CHUNK
    longest = draw(SeededNoise(5), shape, 3 * chunk + 5, 1.0, dtype=dtype)
    for size in (0, 1, 7, chunk - 1, chunk, chunk + 1, 2 * chunk, 2 * chunk + 3):
        assert torch.equal(draw(SeededNoise(5), shape, size, 1.0, dtype=dtype), longest[:size])


@pytest.mark.parametrize("shape", DISTRIBUTIONS)
def test_the_number_of_threads_changes_no_bit(shape: str) -> None:
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        alone = draw(SeededNoise(5), shape, 300_001, 1.0)
        torch.set_num_threads(3)
        assert torch.equal(draw(SeededNoise(5), shape, 300_001, 1.0), alone)
    finally:
        torch.set_num_threads(threads)


@pytest.mark.parametrize("shape", DISTRIBUTIONS)
def test_different_streams_and_seeds_are_independent(shape: str) -> None:
    first = draw(SeededNoise(1), shape, DRAWS, 1.0, stream=1)
    for other in (draw(SeededNoise(1), shape, DRAWS, 1.0, stream=2), draw(SeededNoise(2), shape, DRAWS, 1.0, stream=1)):
        assert_uncorrelated(first, other)
        assert_uncorrelated(first.abs(), other.abs())


def test_seed_and_stream_are_not_confused() -> None:
    assert not torch.equal(SeededNoise(1).uniform(4, stream=11), SeededNoise(11).uniform(4, stream=1))
    assert not torch.equal(SeededNoise(1).uniform(4, stream=-1), SeededNoise(-1).uniform(4, stream=1))


def test_one_stream_used_for_two_distributions_does_not_link_them() -> None:
    source = SeededNoise(1)
    uniform = source.uniform(DRAWS, stream=3)
    gaussian, laplace = (draw(source, shape, DRAWS, 1.0, stream=3) for shape in DISTRIBUTIONS)
    for first, second in ((uniform, gaussian), (uniform, laplace), (gaussian, laplace)):
        assert_uncorrelated(first, second)
        assert_uncorrelated((first.double() - first.double().mean()).abs(), second.abs())


def test_secure_noise_never_repeats_a_stream() -> None:
    source = SecureNoise()
    for shape in DISTRIBUTIONS:
        assert not torch.equal(draw(source, shape, 4, 1.0, stream=1), draw(source, shape, 4, 1.0, stream=1))
    assert not torch.equal(source.uniform(4, stream=1), source.uniform(4, stream=1))


def test_secure_noise_hands_out_every_value_once_even_to_many_threads() -> None:
    source = SecureNoise()
    with ThreadPoolExecutor(8) as pool:
        draws = list(pool.map(lambda turn: source.gaussian(997, std=2.0, stream=1), range(1200)))
    together = torch.stack(draws)
    assert len(torch.unique(together, dim=0)) == len(draws)
    assert not any(torch.isin(one[:3], other).all() for one, other in itertools.pairwise(draws))
    assert stats.kstest((together.flatten() / 2).numpy(), "norm").pvalue > 1e-6


def test_a_spread_of_zero_is_no_noise() -> None:
    for shape in DISTRIBUTIONS:
        assert not draw(SeededNoise(1), shape, 10, 0.0).any()


def test_spread_only_scales() -> None:
    for shape in DISTRIBUTIONS:
        once, thrice = (draw(SeededNoise(1), shape, 1000, spread, dtype=torch.float64) for spread in (1.0, 3.0))
        np.testing.assert_allclose(thrice.numpy(), 3 * once.numpy(), rtol=1e-12)


@pytest.mark.parametrize("spread", [-1.0, math.nan, math.inf])
@pytest.mark.parametrize("shape", DISTRIBUTIONS)
def test_a_senseless_spread_is_refused(shape: str, spread: float) -> None:
    with pytest.raises(SordinoError, match="finite"):
        draw(SeededNoise(1), shape, 3, spread)


def test_a_negative_size_is_refused() -> None:
    with pytest.raises(SordinoError, match="size"):
        SeededNoise(1).uniform(-1, stream=0)
