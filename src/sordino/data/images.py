"""Images as uint8 arrays N x C x H x W: layout, decoding, size and channels."""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from sordino.core import SordinoError
from sordino.data.limits import refuse_larger
from sordino.data.raw import Array

if TYPE_CHECKING:
    from PIL.Image import Image

ImageFile = Path | bytes
GREY_MODES = ("1", "L", "LA")
LUMINANCE = (0.299, 0.587, 0.114)
CHUNK = 1024


def channels_first_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The C x H x W of images stored as H x W, H x W x C or C x H x W."""
    if len(shape) == 2:
        return (1, *shape)
    return (shape[2], shape[0], shape[1]) if _channels_last(shape) else shape


def channels_first(images: Array) -> Array:
    if images.ndim == 3:
        return images[:, None]
    return np.ascontiguousarray(images.transpose(0, 3, 1, 2)) if _channels_last(images.shape[1:]) else images


def _channels_last(shape: tuple[int, ...]) -> bool:
    if shape[2] in (1, 3):
        return True
    if shape[0] in (1, 3):
        return False
    raise SordinoError(
        f"Images must have 1 or 3 channels, first or last, but these are {' x '.join(map(str, shape))}; convert them."
    )


def survey(files: Sequence[ImageFile]) -> tuple[int, int, int]:
    """C x H x W from the headers: the size of the first image, and three channels if any image has colour."""
    _, (width, height) = _header(files[0])
    return (1 if all(_header(file)[0] in GREY_MODES for file in files) else 3, height, width)


def decode(files: Sequence[ImageFile], *, resize: int | None) -> Array:
    """Decode image files of one size, or of any size if they are to be resized."""
    channels, *first_size = survey(files)
    size = first_size if resize is None else [resize, resize]
    refuse_larger(
        f"A set of {len(files)} images of {channels} x {' x '.join(map(str, size))}",
        len(files) * channels * math.prod(size),
    )
    images = np.empty((len(files), channels, *size), np.uint8)
    for start in range(0, len(files), CHUNK):
        chunk = [_pixels(file, "L" if channels == 1 else "RGB") for file in files[start : start + CHUNK]]
        images[start : start + CHUNK] = _stack(chunk, size) if resize is None else _stack_resized(chunk, resize)
    return images


def _pixels(file: ImageFile, mode: str) -> Array:
    with _open(file) as image:
        pixels = np.array(image.convert(mode))
    return pixels[None] if mode == "L" else pixels.transpose(2, 0, 1)


def _stack(chunk: list[Array], size: list[int]) -> Array:
    other = next((list(pixels.shape[1:]) for pixels in chunk if list(pixels.shape[1:]) != size), None)
    if other:
        raise SordinoError(f"The images differ in size ({size} and {other}); set resize to bring them to one size.")
    return np.stack(chunk)


def _stack_resized(chunk: list[Array], resize: int) -> Array:
    resized = np.empty((len(chunk), chunk[0].shape[0], resize, resize), np.uint8)
    for shape in {pixels.shape for pixels in chunk}:
        rows = [row for row, pixels in enumerate(chunk) if pixels.shape == shape]
        resized[rows] = fit(torch.from_numpy(np.stack([chunk[row] for row in rows])), resize=resize, channels=None)
    return resized


def _open(file: ImageFile) -> Image:
    from PIL import Image

    with warnings.catch_warnings():
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        try:
            return Image.open(io.BytesIO(file) if isinstance(file, bytes) else file)
        except (Image.DecompressionBombWarning, Image.DecompressionBombError) as error:
            name = "An image" if isinstance(file, bytes) else str(file)
            raise SordinoError(
                f"{name} has more than {Image.MAX_IMAGE_PIXELS:,} pixels, which looks like a decompression bomb; make it smaller."
            ) from error


def _header(file: ImageFile) -> tuple[str, tuple[int, int]]:
    with _open(file) as image:
        if image.mode.startswith(("I", "F")):
            raise SordinoError(f"Images must have 8 bits per channel, but one is of mode {image.mode}; convert it.")
        return image.mode, image.size


def fitted_shape(shape: tuple[int, ...], *, resize: int | None, channels: int | None) -> tuple[int, ...]:
    """The shape that `fit` gives to an image of this shape."""
    return (channels or shape[0], resize or shape[1], resize or shape[2])


def fit(images: Tensor, *, resize: int | None, channels: int | None) -> Tensor:
    """Bring uint8 images to one square size (bilinear, anti-aliased) and to one or three channels."""
    shape = fitted_shape(tuple(images.shape[1:]), resize=resize, channels=channels)
    if shape == tuple(images.shape[1:]):
        return images
    fitted = torch.empty((len(images), *shape), dtype=torch.uint8)
    for start in range(0, len(images), CHUNK):
        chunk = images[start : start + CHUNK].float()
        if shape[0] < chunk.shape[1]:
            chunk = (chunk * torch.tensor(LUMINANCE).view(1, 3, 1, 1)).sum(1, keepdim=True)
        if shape[1:] != tuple(chunk.shape[2:]):
            chunk = functional.interpolate(chunk, size=shape[1:], mode="bilinear", antialias=True)
        fitted[start : start + CHUNK] = chunk.round_().clamp_(0, 255).to(torch.uint8).expand(-1, shape[0], -1, -1)
    return fitted
