"""The normal distribution function on arrays, through torch: scipy.special takes longer to import than a plan to compute."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor

Floats = NDArray[np.float64]


def ndtr(x: Floats) -> Floats:
    """Φ(x), by the complementary error function: torch's own ndtr cancels in the lower tail."""
    from torch.special import erfc

    return _through_torch(erfc, x * -math.sqrt(0.5)) / 2


def log_ndtr(x: Floats) -> Floats:
    """log Φ(x), exact far into the lower tail."""
    from torch.special import log_ndtr as of_tensor

    return _through_torch(of_tensor, x)


def half_erfcx(x: Floats) -> Floats:
    """Φ(−x)·e^(x²/2), exact where Φ(−x) is too small to be told."""
    from torch.special import erfcx

    return _through_torch(erfcx, x * math.sqrt(0.5)) / 2


def ndtri(probability: Floats) -> Floats:
    """The x with Φ(x) = probability."""
    from torch.special import ndtri as of_tensor

    return _through_torch(of_tensor, probability)


def _through_torch(function: Callable[[Tensor], Tensor], x: Floats) -> Floats:
    import torch

    found: Floats = function(torch.from_numpy(np.asarray(x, dtype=np.float64))).numpy()
    return found
