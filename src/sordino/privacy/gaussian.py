"""The Gaussian mechanism in closed form."""

from __future__ import annotations

import math

import numpy as np

from sordino.privacy.normal import log_ndtr, ndtr, ndtri


def gaussian_epsilon(mu: float, delta: float) -> float:
    """The exact ε of μ-Gaussian-DP at δ, rounded up: δ(ε) = Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ) (arXiv:1805.06530)."""
    if mu <= 0 or delta >= 1:
        return 0.0
    if delta <= 0 or math.isinf(mu):
        return math.inf

    def excess(epsilon: float) -> float:
        places = np.array([mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu])
        return float(ndtr(places)[0]) - math.exp(epsilon + float(log_ndtr(places)[1])) - delta

    if excess(0.0) <= 0:
        return 0.0
    low, high = 0.0, mu * (mu / 2 - float(ndtri(np.array(delta))))
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        if not low < middle < high:
            break
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    return high
