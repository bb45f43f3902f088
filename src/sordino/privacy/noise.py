"""Where noise comes from: a stream cipher's bytes, shaped into Gaussian, Laplace or uniform values.

**Formal guarantee.** If AES-256 in counter mode is a pseudo-random generator, no efficient observer tells these values
from the same formulas fed with true randomness. Radii and Laplace magnitudes are double-precision functions of 53-bit
uniforms or finer, so Gaussian tails reach 9.3 standard deviations and Laplace tails 36 scales; what is cut off weighs
about 1e-16 per coordinate or less. In single precision the Gaussian's angle has 32 bits and is computed in float32: an
error of about 2e-7 of the radius, as from rounding the result, and none in the tail. The compiled kernel and torch
alone agree to that error. `SeededNoise` hides nothing from
whoever knows the seed. Floating-point rounding as such remains outside the guarantee.
"""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from hashlib import blake2b
from threading import Lock
from typing import ClassVar, Literal, Protocol

import torch
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from torch import Tensor

from sordino.core import SordinoError
from sordino.kernels.gaussian import gaussian_pairs, suits_gaussian

Device = str | torch.device

_CHUNK = 131_072  # words of scratch: small enough for the cache, large enough for torch to use its threads
_RESERVE = 8 * _CHUNK
_KEY_BYTES = 32
_ZEROS = memoryview(bytes(8 * _CHUNK))
_LARGEST_SQUARED_RADIUS = torch.tensor(126 * math.log(2), dtype=torch.float64)


class NoiseSource(Protocol):
    """Draws noise. `stream` names the draw: a seeded source repeats itself on the same stream, a secure one never."""

    @property
    def kind(self) -> Literal["seeded", "secure"]: ...

    def gaussian(
        self, size: int, *, std: float, stream: int, device: Device = "cpu", dtype: torch.dtype = torch.float32
    ) -> Tensor: ...

    def laplace(
        self, size: int, *, scale: float, stream: int, device: Device = "cpu", dtype: torch.dtype = torch.float32
    ) -> Tensor: ...

    def uniform(self, size: int, *, stream: int) -> Tensor: ...


class _CipherNoise(ABC):
    """Everything but the keys. The first n values of a longer draw are the values of a shorter one."""

    def gaussian(
        self, size: int, *, std: float, stream: int, device: Device = "cpu", dtype: torch.dtype = torch.float32
    ) -> Tensor:
        """Independent normal values with mean 0 and standard deviation `std`."""
        _check(size, "standard deviation", std)
        work, angle_words = (torch.float64, torch.int64) if dtype == torch.float64 else (torch.float32, torch.int32)
        radii = _Words(self._key("gaussian radius", stream), torch.int64, size)
        angles = _Words(self._key("gaussian angle", stream), angle_words, size)
        out = torch.empty(size, dtype=work)
        transform = gaussian_pairs if suits_gaussian(work) else _gaussian_pairs
        for part in _parts(out, 2 * _CHUNK):
            cosines, sines = part[:_CHUNK], part[_CHUNK:]
            pairs = cosines.numel()
            transform(radii.next(pairs), angles.next(pairs), cosines, sines, std=std)
        return out.to(device=device, dtype=dtype)

    def laplace(
        self, size: int, *, scale: float, stream: int, device: Device = "cpu", dtype: torch.dtype = torch.float32
    ) -> Tensor:
        """Independent Laplace values with mean 0 and the given scale, by inverting the distribution function."""
        _check(size, "scale", scale)
        source = _Words(self._key("laplace", stream), torch.int64, size)
        signed, values = torch.empty(2, min(size, _CHUNK), dtype=torch.float64)
        out = torch.empty(size, dtype=dtype)
        for part in _parts(out, _CHUNK):
            count = part.numel()
            # Odd numerators are symmetric about zero and are never 0 or ±2^53, so the logarithm is finite.
            signed[:count].copy_(source.next(count).bitwise_right_shift_(10).bitwise_or_(1)).mul_(2.0**-53)
            torch.abs(signed[:count], out=values[:count]).log_().mul_(scale).copysign_(signed[:count])
            part.copy_(values[:count])
        return out.to(device=device)

    def uniform(self, size: int, *, stream: int) -> Tensor:
        """Independent values of 53 bits in [0, 1), in double precision."""
        _check(size, "scale", 1.0)
        out = torch.empty(size, dtype=torch.float64)
        source = _Words(self._key("uniform", stream), torch.int64, size)
        for part in _parts(out, _CHUNK):
            words = source.next(part.numel()).bitwise_right_shift_(11)
            part.copy_(words).mul_(2.0**-53).add_(0.5)
        return out

    @abstractmethod
    def _key(self, purpose: str, stream: int) -> bytes: ...


class SeededNoise(_CipherNoise):
    """Reproducible noise: the same seed and stream always give the same values, whatever was drawn before."""

    kind: ClassVar[Literal["seeded", "secure"]] = "seeded"

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def _key(self, purpose: str, stream: int) -> bytes:
        return blake2b(
            f"{self._seed}/{purpose}/{stream}".encode(), digest_size=_KEY_BYTES, person=b"sordino.noise"
        ).digest()


class SecureNoise(_CipherNoise):
    """Noise nobody can repeat: every key comes fresh from the operating system and is forgotten.

    Small Gaussian draws are cut from a reserve of standard normal values, each handed out once, so that they cost per
    value what large ones do.
    """

    kind: ClassVar[Literal["seeded", "secure"]] = "secure"

    def __init__(self) -> None:
        self._reserve = torch.empty(0)
        self._left = 0
        self._one_at_a_time = Lock()

    def gaussian(
        self, size: int, *, std: float, stream: int, device: Device = "cpu", dtype: torch.dtype = torch.float32
    ) -> Tensor:
        _check(size, "standard deviation", std)
        if dtype != torch.float32 or size > _RESERVE // 2:
            return super().gaussian(size, std=std, stream=stream, device=device, dtype=dtype)
        with self._one_at_a_time:
            if self._left < size:
                self._reserve, self._left = super().gaussian(_RESERVE, std=1.0, stream=stream), _RESERVE
            self._left -= size
            unit = self._reserve.narrow(0, self._left, size)
        noise = torch.mul(unit, std)
        return noise if device == "cpu" else noise.to(device)

    def _key(self, purpose: str, stream: int) -> bytes:
        return os.urandom(_KEY_BYTES)


class _Words:
    """A keystream read as signed integers, a chunk at a time, into one scratch buffer."""

    def __init__(self, key: bytes, dtype: torch.dtype, size: int) -> None:
        self._encryptor = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()
        self._words = torch.empty(max(1, min(size, _CHUNK)), dtype=dtype)
        self._buffer = self._words.view(torch.uint8).numpy().data

    def next(self, count: int) -> Tensor:
        """The next `count` words; they live until the next call."""
        self._encryptor.update_into(_ZEROS[: count * self._words.itemsize], self._buffer)
        return self._words[:count]


def _gaussian_pairs(radius_words: Tensor, angle_words: Tensor, cosines: Tensor, sines: Tensor, *, std: float) -> None:
    """Box and Muller's transform by torch alone."""
    radius, angle = torch.empty(2, *cosines.shape, dtype=cosines.dtype)
    exponents = torch.empty_like(radius, dtype=torch.float64)
    _squared_radius(radius_words, exponents, radius).sqrt_().mul_(std)
    angle.copy_(angle_words).mul_(math.pi / -float(torch.iinfo(angle_words.dtype).min))
    torch.cos(angle, out=cosines).mul_(radius)
    both = sines.numel()
    torch.mul(angle[:both].sin_(), radius[:both], out=sines)


def _squared_radius(words: Tensor, scratch: Tensor, out: Tensor) -> Tensor:
    """-2 log(|w| / 2^63) for 64-bit words w, in double precision; the clamp serves the one word that is zero."""
    scratch.copy_(words).mul_(scratch).log_()
    return out.copy_(torch.sub(_LARGEST_SQUARED_RADIUS, scratch, out=scratch)).clamp_(0, _LARGEST_SQUARED_RADIUS.item())


def _parts(out: Tensor, length: int) -> Iterator[Tensor]:
    return (out[start : start + length] for start in range(0, out.numel(), length))


def _check(size: int, name: str, value: float) -> None:
    if size < 0:
        raise SordinoError(f"Noise needs a size of 0 or more, but got {size}; pass the number of coordinates.")
    if not (math.isfinite(value) and value >= 0):
        raise SordinoError(
            f"Noise needs a finite {name} of 0 or more, but got {value}; check the clip norm and multiplier."
        )
