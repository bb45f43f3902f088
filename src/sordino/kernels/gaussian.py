"""Box and Muller's transform of random words, in one pass over memory."""

from __future__ import annotations

import torch
from torch import Tensor

from sordino.kernels.native import addresses, library, threads


def suits_gaussian(dtype: torch.dtype) -> bool:
    return library() is not None and dtype == torch.float32


def gaussian_pairs(radius_words: Tensor, angle_words: Tensor, cosines: Tensor, sines: Tensor, *, std: float) -> None:
    """Fill `cosines`, and `sines` as far as there is room, from as many 64-bit and 32-bit words as `cosines` is long."""
    kernels = library()
    assert kernels is not None
    tensors = addresses(radius_words, angle_words, cosines, sines)
    kernels.gaussian_pairs(*tensors, cosines.numel(), sines.numel(), std, threads(cosines.numel()))
