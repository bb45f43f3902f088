"""Banded matrices that correlate the noise of rounds, and how far prefix sums of such noise stray.

Round t's noise N_t solves C·N = Z, where Z is independent from round to round and C is lower triangular with entries
only for 0 ≤ t − s < b. So later rounds take back part of what earlier ones added, and the model, which is a prefix sum
of rounds, strays less. C is a Toeplitz matrix of b `coefficients` with every column scaled to norm 1: the last b − 1
columns are cut off by the end of the run, and would be shorter.

Formal guarantee: columns that are b or more apart share no row. Whoever contributes at most 1 to each of k rounds, any
two of them at least b apart, moves C·S by k orthogonal vectors of norm at most 1: no more than k separate releases do.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class BandedMatrix:
    """C for a run of so many rounds. `BandedMatrix(coefficients=(1.0,), rounds=9)` is independent noise.

    `coefficients` are the first column's, from the diagonal down; only their ratios matter.
    """

    coefficients: tuple[float, ...]
    rounds: int

    @property
    def bands(self) -> int:
        return len(self.coefficients)

    @cached_property
    def ratios(self) -> Floats:
        """The coefficients relative to the one on the diagonal."""
        return np.array(self.coefficients) / self.coefficients[0]

    def diagonal(self, round_number: int) -> float:
        """C[t, t]: what makes the norm of column t exactly 1, however early the run's end cuts it off."""
        return 1 / float(np.linalg.norm(self.ratios[: self.rounds - round_number]))

    def prefix_error(self) -> float:
        """Root mean square of the prefix sums of N, over rounds, where Z has variance 1."""
        noise = inverse_series(self.ratios, self.rounds)
        whole = max(0, self.rounds - self.bands + 1)
        weights = np.cumsum(noise[:whole]) / self.diagonal(0)
        prefix, total = np.pad(weights[::-1], (0, self.rounds - whole)), float(np.cumsum(weights**2).sum())
        for number in range(whole, self.rounds):  # rounds whose columns the run's end cuts off
            prefix[: number + 1] += noise[number::-1] / self.diagonal(number)
            total += float(prefix @ prefix)
        return math.sqrt(total / self.rounds)

    def gain(self) -> float:
        """How many times further prefix sums of independent noise stray, at the same multiplier."""
        return math.sqrt((self.rounds + 1) / 2) / self.prefix_error()


def square_root(bands: int) -> tuple[float, ...]:
    """The first coefficients of (1 − x)^(−1/2): the square root of the matrix that makes prefix sums."""
    k = np.arange(1, bands)
    return (1.0, *np.cumprod((2 * k - 1) / (2 * k)).tolist())


def inverse_series(coefficients: Floats, length: int) -> Floats:
    """The first coefficients of 1/c(x), the first column of a Toeplitz matrix's inverse, by Newton's doubling."""
    inverse = 1 / coefficients[:1]
    while (size := 2 * len(inverse)) < 2 * length:
        squared = product(inverse, inverse, size)
        inverse = np.pad(2 * inverse, (0, len(inverse))) - product(squared, coefficients, size)
    return inverse[:length]


def product(one: Floats, other: Floats, length: int) -> Floats:
    """The first coefficients of a product of two series."""
    size = 1 << (len(one) + len(other)).bit_length()
    found = np.fft.irfft(np.fft.rfft(one, size) * np.fft.rfft(other, size), size)
    return np.asarray(found[:length], dtype=np.float64)
