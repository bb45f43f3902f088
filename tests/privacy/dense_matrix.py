"""The banded matrix of correlated noise, written out."""

import numpy as np
from scipy.linalg import toeplitz


def dense(matrix):
    """C, written out from its definition: a banded Toeplitz matrix, with each column divided by its own norm."""
    whole = toeplitz(np.pad(matrix.coefficients, (0, matrix.rounds))[: matrix.rounds], np.zeros(matrix.rounds))
    return whole / np.linalg.norm(whole, axis=0)
