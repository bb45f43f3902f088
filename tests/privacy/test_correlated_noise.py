"""Correlated noise has the covariance it claims, and every row costs one release, whatever is repeated, lost or cut short."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from dense_matrix import dense
from safetensors.torch import load, save
from scipy import stats

from sordino.core import SordinoError
from sordino.privacy.banded_matrix import BandedMatrix, square_root
from sordino.privacy.banded_optimum import least_error
from sordino.privacy.correlated_noise import Row, correlate
from sordino.privacy.noise import SeededNoise
from sordino.privacy.streams import stream_id

FALSE_POSITIVE_RATE = 1e-6
MATRIX = BandedMatrix(coefficients=square_root(3), rounds=8)


def rows_of(numbers, *, scale=1.0):
    """Rows of these rounds in this order; a round that is not the next one was begun by a new attempt."""
    attempts = np.cumsum([0, *(b != a + 1 for a, b in pairwise(numbers))]).tolist()
    return [
        Row(round=number, line=line, attempt=attempt, scale=scale)
        for line, (number, attempt) in enumerate(zip(numbers, attempts, strict=True))
    ]


def noise_of(matrix, rows, draws, memory=None):
    memory = {} if memory is None else memory
    return torch.stack([correlate(fresh, row, matrix, memory) for fresh, row in zip(draws, rows, strict=True)])


def strategy(matrix, rows):
    """The matrix that the recursion really inverts, read off by feeding it one unit after the other."""
    return np.linalg.inv(noise_of(matrix, rows, torch.eye(len(rows), dtype=torch.float64)).numpy())


@pytest.mark.parametrize("bands", [1, 2, 3, 8])
def test_the_recursion_inverts_the_matrix(bands):
    matrix = BandedMatrix(coefficients=square_root(bands), rounds=8)
    assert strategy(matrix, rows_of(range(8))) == pytest.approx(dense(matrix), abs=1e-12)


@pytest.mark.parametrize(("factor", "accepted"), [(1.0, True), (0.99, False), (1.01, False)])
def test_the_covariance_is_what_is_claimed_no_less_and_no_more(factor, accepted):
    """C·N over z·B must be white: every variance 1 and every correlation 0, two-sided, and one per cent off is noticed."""
    size, scale, source = 200_000, 1.7 * 0.5, SeededNoise(5)
    draws = [source.gaussian(size, std=factor * scale, stream=stream_id("row", t)) for t in range(8)]
    white = dense(MATRIX) @ noise_of(MATRIX, rows_of(range(8), scale=scale), draws).double().numpy() / scale
    products = white @ white.T / size
    deviations = np.sqrt(size) * (products - np.eye(8)) / np.sqrt(1 + np.eye(8))
    limit = stats.norm.isf(FALSE_POSITIVE_RATE / 2 / 36)
    assert (np.abs(deviations).max() < limit) == accepted


HISTORIES = {
    "as planned": [0, 1, 2, 3, 4, 5, 6, 7],
    "cut short": [0, 1, 2, 3],
    "a round again": [0, 1, 2, 2, 3, 4, 5, 6, 7],
    "three rounds again, twice": [0, 1, 2, 3, 4, 2, 3, 4, 2, 3, 4, 5, 6, 7],
    "rounds left out": [0, 1, 4, 5, 6],
    "backwards": [5, 4, 3, 3, 0],
    "two releases in every round": [0, 0, 1, 1, 2, 2, 3, 3],
}


def overcharge(found, numbers, period):
    """How much more than one release each the columns of any one pool cost, at the worst."""
    pools = [[i for i, number in enumerate(numbers) if number % period == pool] for pool in range(period)]
    return max(np.linalg.norm(found[:, pool].T @ found[:, pool], 2) - 1 for pool in pools if pool)


@pytest.mark.parametrize("history", HISTORIES)
def test_whatever_happened_each_row_costs_one_release(history):
    numbers = HISTORIES[history]
    found = strategy(MATRIX, rows_of(numbers))
    assert overcharge(found, numbers, period=3) <= 1e-12
    assert np.linalg.norm(found, axis=0).max() <= 1 + 1e-12


def test_a_repeated_row_that_went_on_would_cost_more():
    """Why a new block begins: with the old memory, round 1's column is used by all rows of round 2."""
    numbers = HISTORIES["three rounds again, twice"]
    memory, kept, found = {}, {}, []
    for fresh, number in zip(torch.eye(len(numbers), dtype=torch.float64), numbers, strict=True):
        if number == 2:
            kept = kept or {name: value.clone() for name, value in memory.items()}
            memory = {name: value.clone() for name, value in kept.items()}
        found.append(correlate(fresh, Row(round=number, line=number, attempt=0, scale=1.0), MATRIX, memory))
    assert overcharge(np.linalg.inv(torch.stack(found).numpy()), numbers, period=3) > 0.2


def after_two_rounds(size=4):
    memory = {}
    noise_of(MATRIX, rows_of([0, 1]), torch.ones(2, size), memory)
    return memory


ANOTHER = {
    "rows that nobody knows the noise of": Row(round=2, line=5, attempt=1, scale=1.0),
    "another scale": Row(round=2, line=2, attempt=0, scale=2.0),
    "another round": Row(round=3, line=2, attempt=0, scale=1.0),
    "the same round": Row(round=1, line=2, attempt=0, scale=1.0),
}


@pytest.mark.parametrize("name", ANOTHER)
def test_a_row_that_does_not_follow_begins_a_new_block(name):
    row, fresh = ANOTHER[name], torch.arange(4.0)
    noise = correlate(fresh, row, MATRIX, after_two_rounds())
    assert torch.equal(noise, fresh / MATRIX.diagonal(row.round))


def test_another_size_begins_a_new_block():
    fresh = torch.ones(6)
    noise = correlate(fresh, Row(round=2, line=2, attempt=0, scale=1.0), MATRIX, after_two_rounds())
    assert torch.equal(noise, fresh / MATRIX.diagonal(2))


@pytest.mark.parametrize("bands", [2, 3, 4])
def test_another_matrix_begins_a_new_block(bands):
    matrix = BandedMatrix(coefficients=least_error(bands, 8), rounds=8)
    fresh = torch.arange(4.0)
    noise = correlate(fresh, Row(round=2, line=2, attempt=0, scale=1.0), matrix, after_two_rounds())
    assert torch.equal(noise, fresh / matrix.diagonal(2))


@pytest.mark.parametrize(
    "row",
    [Row(round=2, line=9, attempt=0, scale=1.0), Row(round=2, line=2, attempt=1, scale=1.0)],
    ids=["other releases between", "taken up again with nothing lost"],
)
def test_a_row_that_follows_takes_back_earlier_noise(row):
    fresh = torch.arange(4.0)
    assert not torch.equal(correlate(fresh, row, MATRIX, after_two_rounds()), fresh / MATRIX.diagonal(row.round))


@pytest.mark.parametrize("bands", [1, 2, 3, 5, 8])
def test_memory_from_a_checkpoint_goes_on_to_the_same_bits(bands):
    matrix = BandedMatrix(coefficients=square_root(bands), rounds=8)
    rows, draws = rows_of(range(8)), torch.randn(8, 1000, generator=torch.Generator().manual_seed(1))
    memory = {}
    before = noise_of(matrix, rows[:5], draws[:5], memory)
    after = noise_of(matrix, rows[5:], draws[5:], load(save(memory)))
    assert torch.equal(torch.cat([before, after]), noise_of(matrix, rows, draws))


def test_memory_holds_as_much_as_later_rounds_need():
    memory, sizes = {}, []
    for row in rows_of(range(8)):
        correlate(torch.ones(4), row, MATRIX, memory)
        sizes.append(sum(value.numel() for value in memory.values() if value.dtype == torch.float32))
    assert sizes == [8] * 7 + [0]
    assert not memory


def test_rounds_beyond_the_plan_are_refused():
    with pytest.raises(SordinoError, match="planned for 8 rounds, but got one more, number 8"):
        correlate(torch.ones(2), Row(round=8, line=8, attempt=0, scale=1.0), MATRIX, {})
