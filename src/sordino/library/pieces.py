"""Single parts for people with a program of their own: dealing rows out to clients, drawing batches, adding noise."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, float64

from sordino.core import SordinoError
from sordino.data.partition import PARTITIONERS
from sordino.privacy.noise import NoiseSource, SecureNoise, SeededNoise
from sordino.privacy.samplers import poisson_batch
from sordino.privacy.streams import stream_id
from sordino.settings import member


def partition(
    labels: ArrayLike, *, clients: int, name: str = "iid", seed: int = 0, **settings: Any
) -> list[NDArray[np.int64]]:
    """The rows of each client, dealt out by a partitioner of ours or of your own.

    >>> rows = sordino.partition(labels, clients=10, name="dirichlet", alpha=0.5)
    """
    classes = np.asarray(labels)
    if classes.ndim != 1 or classes.dtype.kind not in "ui":
        raise SordinoError(
            f"partition takes one class number for each row, but got {classes.dtype} of shape {classes.shape}; number the classes."
        )
    built = member(PARTITIONERS, {"name": name, **settings}, where="partition")
    found = built.split(classes.astype(np.int64), None, clients=clients, rng=np.random.default_rng(seed))
    return [np.asarray(found.of(client)) for client in range(clients)]


def poisson_batches(rows: int, *, rate: float, steps: int, seed: int | None = None) -> Iterator[NDArray[np.int64]]:
    """The rows of so many batches, each row drawn by a coin of its own; a batch may be empty, and counts as a step all the same.

    `rate` is the chance of a row to be in a batch. With a `seed` the draws repeat themselves, for tests alone.

    >>> for batch in sordino.poisson_batches(len(inputs), rate=0.01, steps=1000): ...
    """
    if not 0 < rate <= 1:
        raise SordinoError(f"A batch is drawn at a rate above 0 and up to 1, but got rate = {rate}; correct it.")
    source = _source(seed)
    return (poisson_batch(rows, rate, source, stream=stream_id("pieces", "batch", step)) for step in range(steps))


def add_noise(
    total: Tensor,
    *,
    noise_multiplier: float,
    clip_norm: float,
    kind: Literal["gaussian", "laplace"] = "gaussian",
    seed: int | None = None,
) -> Tensor:
    """A sum whose summands have norm `clip_norm` at most (L2, or L1 for "laplace"), with noise of `noise_multiplier` times that.

    Noise is drawn anew each time, by a source that nobody can repeat; a `seed` repeats it, for tests alone.

    >>> noisy = sordino.add_noise(clipped.total, noise_multiplier=1.1, clip_norm=1.0)
    """
    if not (noise_multiplier >= 0 and clip_norm > 0):
        raise SordinoError(
            f"Noise needs noise_multiplier from 0 on and clip_norm above 0, but got {noise_multiplier} and {clip_norm}; correct them."
        )
    source, scale, stream = _source(seed), noise_multiplier * clip_norm, stream_id("pieces", "noise", 0)
    drawn = (
        source.gaussian(total.numel(), std=scale, stream=stream, dtype=float64)
        if kind == "gaussian"
        else source.laplace(total.numel(), scale=scale, stream=stream, dtype=float64)
    )
    return total + drawn.view_as(total).to(total)


def _source(seed: int | None) -> NoiseSource:
    return SecureNoise() if seed is None else SeededNoise(seed)
