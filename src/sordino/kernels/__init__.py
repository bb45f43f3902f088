"""Compiled loops for the processor, each with torch's own operation to fall back on."""

from sordino.kernels.convolution import Conv2d
from sordino.kernels.fastest import fastest
from sordino.kernels.group_norm import GroupNorm, rectified

__all__ = ["Conv2d", "GroupNorm", "fastest", "rectified"]
