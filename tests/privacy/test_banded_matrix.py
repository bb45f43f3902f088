"""Banded matrices cost what independent noise costs, by brute force over small ones, and stray less."""

from itertools import combinations, pairwise, product

import numpy as np
import pytest
from dense_matrix import dense
from scipy.linalg import toeplitz
from scipy.optimize import minimize
from scipy.stats import multivariate_normal

from sordino.privacy.accounting import spent
from sordino.privacy.banded_matrix import BandedMatrix, square_root
from sordino.privacy.banded_optimum import least_error
from sordino.privacy.event_kinds import GaussianDpEvent
from sordino.privacy.gaussian import gaussian_epsilon

SMALL = [(rounds, bands) for rounds in (1, 2, 5, 7) for bands in (1, 2, 3, 4) if bands <= rounds]
KINDS = {"square-root": lambda bands, rounds: square_root(bands), "least-error": least_error}


def patterns(rounds, apart):
    """All sets of rounds of which any two are at least so far apart."""
    every = (chosen for count in range(rounds + 1) for chosen in combinations(range(rounds), count))
    return [chosen for chosen in every if all(b - a >= apart for a, b in pairwise(chosen))]


@pytest.fixture(params=[(*shape, kind) for shape in SMALL for kind in KINDS], ids=str)
def matrix(request):
    rounds, bands, kind = request.param
    return BandedMatrix(coefficients=KINDS[kind](bands, rounds), rounds=rounds)


# Root mean squared error of prefix sums, independent over banded, as anyone can work it out.
GAINS = {
    60: (1.32, 1.70, 2.20, 2.47, 2.60),
    200: (1.34, 1.76, 2.47, 3.07, 3.58),
    400: (1.34, 1.78, 2.55, 3.27, 4.04),
}


@pytest.mark.parametrize("rounds", GAINS)
def test_square_roots_gain_what_is_known(rounds):
    gains = [BandedMatrix(coefficients=square_root(bands), rounds=rounds).gain() for bands in (2, 4, 10, 20, 40)]
    assert tuple(round(gain, 2) for gain in gains) == GAINS[rounds]


def test_the_error_is_that_of_the_dense_matrix(matrix):
    prefix_sums = np.tril(np.ones((matrix.rounds, matrix.rounds)))
    error = np.linalg.norm(prefix_sums @ np.linalg.inv(dense(matrix))) / matrix.rounds**0.5
    assert matrix.prefix_error() == pytest.approx(error, rel=1e-12)


def test_the_diagonal_is_that_of_unit_columns(matrix):
    assert [matrix.diagonal(number) for number in range(matrix.rounds)] == pytest.approx(np.diag(dense(matrix)))


def test_one_band_is_independent_noise():
    assert BandedMatrix(coefficients=(1.0,), rounds=50).gain() == pytest.approx(1.0)


def test_every_pattern_of_participation_moves_it_as_separate_releases_do(matrix):
    """Over all patterns, and all signs of what is contributed, ‖C·Δ‖² is the number of participations: no more, no less."""
    for chosen in patterns(matrix.rounds, matrix.bands):
        for signs in product((-1.0, 1.0), repeat=len(chosen)):
            moved = np.zeros(matrix.rounds)
            moved[list(chosen)] = signs
            assert np.linalg.norm(dense(matrix) @ moved) ** 2 == pytest.approx(len(chosen))


def test_participations_share_no_row(matrix):
    columns = dense(matrix) != 0
    for chosen in patterns(matrix.rounds, matrix.bands):
        assert columns[:, list(chosen)].sum(axis=1).max(initial=0) <= 1


def test_a_shorter_distance_costs_more():
    """What the guarantee rests on: two participations within the band move it further than two releases."""
    matrix = BandedMatrix(coefficients=square_root(3), rounds=6)
    assert np.linalg.norm(dense(matrix) @ [1, 0, 1, 0, 0, 0]) ** 2 > 2.5


def test_the_joint_price_is_that_of_as_many_releases(matrix):
    """ε of the exact joint Gaussian S + C⁻¹·Z, from its covariance, is what the accountant says of k releases of z."""
    z, delta = 1.3, 1e-5
    precision = dense(matrix).T @ dense(matrix) / z**2
    for chosen in (chosen for chosen in patterns(matrix.rounds, matrix.bands) if chosen):
        moved = np.isin(np.arange(matrix.rounds), chosen).astype(float)
        exact = gaussian_epsilon(float(np.sqrt(moved @ precision @ moved)), delta)
        charged = spent({GaussianDpEvent(z): len(chosen)}, delta=delta, neighbours="add-remove", precise=True)
        assert charged.epsilon == pytest.approx(exact, rel=1e-6)


def test_with_coins_the_likelihoods_are_those_of_sampled_releases(matrix):
    """A unit that is drawn by a fair coin at each of its turns: by brute force over all coins, the ratio of the joint
    densities is the product, over its turns, of the ratios of one sampled Gaussian release each."""
    z, rate, period = 0.8, 0.3, matrix.bands
    rng, strategy = np.random.default_rng(3), dense(matrix)
    covariance = z**2 * np.linalg.inv(strategy.T @ strategy)
    seen = rng.multivariate_normal(np.zeros(matrix.rounds), covariance, size=20)
    turns = range(0, matrix.rounds, period)

    def density(coins):
        mean = np.zeros(matrix.rounds)
        mean[list(turns)] = coins
        chance = np.prod([rate if coin else 1 - rate for coin in coins])
        return chance * multivariate_normal(mean, covariance).pdf(seen)

    joint = sum(density(coins) for coins in product((0, 1), repeat=len(turns)))
    ratio = joint / multivariate_normal(np.zeros(matrix.rounds), covariance).pdf(seen)
    directions = seen @ strategy.T @ strategy[:, list(turns)] / z**2
    alone = 1 - rate + rate * np.exp(directions - 1 / (2 * z**2))
    assert ratio == pytest.approx(alone.prod(axis=1), rel=1e-6)


@pytest.mark.parametrize(("bands", "rounds"), [(2, 9), (3, 20), (5, 30)])
def test_least_error_is_least(bands, rounds):
    """Against a general optimiser on the dense matrix, with the end's columns counted whole."""

    def error(others):
        whole = toeplitz(np.pad([1.0, *others], (0, rounds - bands)), np.zeros(rounds))
        return np.linalg.norm([1.0, *others]) * np.linalg.norm(np.linalg.inv(whole).cumsum(axis=0))

    best = minimize(error, square_root(bands)[1:], method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12})
    assert error(least_error(bands, rounds)[1:]) <= best.fun * (1 + 1e-7)
    assert best.fun < error(square_root(bands)[1:])


@pytest.mark.parametrize(("rounds", "bands"), [(200, 10), (400, 40), (1000, 20)])
def test_least_error_gains_some_per_cent_over_the_square_root(rounds, bands):
    root, least = (BandedMatrix(coefficients=kind(bands, rounds), rounds=rounds).gain() for kind in KINDS.values())
    assert 1.03 * root < least < 1.2 * root
