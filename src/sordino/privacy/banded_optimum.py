"""The banded Toeplitz coefficients whose prefix sums stray least, by damped least squares from the square root's."""

from __future__ import annotations

import numpy as np

from sordino.privacy.banded_matrix import Floats, inverse_series, product, square_root

ITERATIONS, ENOUGH = 100, 1e-8
"""A search ends when a step gains less than this share."""


def least_error(bands: int, rounds: int) -> tuple[float, ...]:
    """Coefficients of least mean squared error over the rounds, with 1 on the diagonal.

    The columns that the run's end cuts off are counted as if they were whole: where there are nearly as many bands as
    rounds, the square root may be a shade better.
    """
    ratios = np.array(square_root(bands))
    with np.errstate(over="ignore", invalid="ignore"):
        return tuple((_searched(ratios, rounds) if bands > 1 else ratios).tolist())


def _searched(ratios: Floats, rounds: int) -> Floats:
    """Levenberg and Marquardt's search: steps that do not gain are held back more, others less."""
    residuals, damping = _residuals(ratios, rounds), 1e-3
    for _ in range(ITERATIONS):
        tried = ratios + np.append(0.0, _step(ratios, residuals, damping))
        after = _residuals(tried, rounds)
        gained = 1 - float(after @ after) / float(residuals @ residuals)
        if gained > 0:
            ratios, residuals, damping = tried, after, damping / 10
        else:
            damping *= 10
        if 0 < gained < ENOUGH:
            break
    return ratios


def _residuals(ratios: Floats, rounds: int) -> Floats:
    """Numbers whose squares add up to the error: each lag's weight in a prefix sum, as often as the lag occurs."""
    weights = np.cumsum(inverse_series(ratios, rounds))
    residuals: Floats = np.linalg.norm(ratios) * _occurrences(rounds) * weights
    return residuals


def _step(ratios: Floats, residuals: Floats, damping: float) -> Floats:
    slopes = _slopes(ratios, residuals)
    normal = slopes.T @ slopes
    held_back = normal + damping * np.diag(np.diag(normal))
    return np.asarray(np.linalg.solve(held_back, -slopes.T @ residuals), dtype=np.float64)


def _slopes(ratios: Floats, residuals: Floats) -> Floats:
    """Derivatives of the residuals by each ratio but the first: the norm grows, and 1/c changes by −xⁱ/c²."""
    rounds, square = len(residuals), float(ratios @ ratios)
    inverse = inverse_series(ratios, rounds)
    falling = np.sqrt(square) * product(np.cumsum(inverse), inverse, rounds)
    columns = [
        ratio / square * residuals - _occurrences(rounds) * np.append(np.zeros(lag), falling[: rounds - lag])
        for lag, ratio in enumerate(ratios)
    ]
    return np.stack(columns[1:], axis=1)


def _occurrences(rounds: int) -> Floats:
    """Square roots of how often each lag occurs."""
    return np.sqrt(np.arange(rounds, 0, -1, dtype=np.float64))
