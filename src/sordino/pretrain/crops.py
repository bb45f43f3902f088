"""Random crops of public images, and the same images as a coarser camera would have taken them."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import interpolate


def random_crops(images: Tensor, *, smallest: float, generator: torch.Generator) -> Tensor:
    """One square crop of each image, mirrored half the time; all of one side, drawn from `smallest` of the image's to all of it."""
    whole = min(images.shape[2:])
    least = max(1, round(smallest * whole))
    side = int(torch.randint(least, whole + 1, (), generator=generator))
    corners = torch.rand(len(images), 2, generator=generator)
    mirrored = torch.rand(len(images), generator=generator) < 0.5
    crops = []
    for image, corner, mirror in zip(images, corners.tolist(), mirrored.tolist(), strict=True):
        top, left = (int(place * (length - side + 1)) for place, length in zip(corner, image.shape[1:], strict=True))
        crop = image[:, top : top + side, left : left + side]
        crops.append(crop.flip(2) if mirror else crop)
    return torch.stack(crops)


def coarse(images: Tensor, side: int) -> Tensor:
    """uint8 images shrunk to a side, anti-aliased and rounded to whole grey levels."""
    shrunk = interpolate(images.float(), size=(side, side), mode="bilinear", antialias=True)
    return shrunk.round_().clamp_(0, 255).to(torch.uint8)
