"""How like two images are: PSNR and SSIM, on pixels from 0 to 1."""

from __future__ import annotations

import math

import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor
from torch.nn.functional import conv2d

LARGEST_PSNR = 100.0
"""Of images that are the same to the last digit that is shown."""


def psnr(one: Tensor, other: Tensor) -> float:
    """Peak signal to noise ratio, in decibels."""
    error = float((one - other).square().mean())
    return LARGEST_PSNR if error == 0 else min(LARGEST_PSNR, -10 * math.log10(error))


def ssim(one: Tensor, other: Tensor) -> float:
    """Structural similarity (Wang et al. 2004) with a Gaussian window, channel by channel."""
    size = min(11, one.shape[-1], one.shape[-2])
    size -= 1 - size % 2
    places = torch.arange(size, dtype=one.dtype) - size // 2
    line = torch.exp(-places.square() / (2 * 1.5**2))
    window = (line[:, None] * line[None] / line.sum().square())[None, None]
    images = torch.stack([one, other]).transpose(0, 1)
    x, y = images[:, 0][:, None], images[:, 1][:, None]
    mean_x, mean_y = conv2d(x, window), conv2d(y, window)
    spread_x, spread_y = conv2d(x * x, window) - mean_x**2, conv2d(y * y, window) - mean_y**2
    shared = conv2d(x * y, window) - mean_x * mean_y
    level, contrast = 0.01**2, 0.03**2
    found = ((2 * mean_x * mean_y + level) * (2 * shared + contrast)) / (
        (mean_x**2 + mean_y**2 + level) * (spread_x + spread_y + contrast)
    )
    return float(found.mean())


def matched(truth: Tensor, found: Tensor) -> Tensor:
    """The images that were found, in the order of the batch that fits best; nothing else of the truth is used."""
    costs = (truth.flatten(1)[:, None] - found.flatten(1)[None]).square().mean(2)
    _, order = linear_sum_assignment(costs.numpy())
    return found[torch.from_numpy(order)]
