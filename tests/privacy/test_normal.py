import numpy as np
import scipy.fft
import scipy.special

from sordino.privacy import normal
from sordino.privacy.loss_distribution import _quick_length

PLACES = np.concatenate([np.linspace(-38, 9, 4001), np.linspace(-1e4, -38, 101)])


def test_the_normal_distribution_function_is_scipys() -> None:
    assert np.allclose(normal.ndtr(PLACES), scipy.special.ndtr(PLACES), rtol=1e-12, atol=1e-300)
    assert np.allclose(normal.log_ndtr(PLACES), scipy.special.log_ndtr(PLACES), rtol=1e-12, atol=1e-18)
    shares = np.concatenate([np.geomspace(1e-300, 0.5, 500), 1 - np.geomspace(1e-15, 0.5, 500)])
    assert np.allclose(normal.ndtri(shares), scipy.special.ndtri(shares), rtol=1e-12, atol=1e-15)


def test_transform_lengths_are_the_next_products_of_two_three_and_five() -> None:
    for least in (*range(1, 2000), 65_537, 1_000_003, 4_194_303):
        assert _quick_length(least) == scipy.fft.next_fast_len(least, real=True)
