"""Rows as short fingerprints, by which two data sets can be compared when only one of them is at hand."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from hashlib import blake2b

import numpy as np
import torch
from torch import Tensor

from sordino.core import SordinoError
from sordino.data import images
from sordino.data.examples import Examples
from sordino.data.raw import Array
from sordino.data.source import Source, raw_inputs, raw_shape

_BYTES = 8
"""Of one row: two rows of two sets of a million are taken for each other once in 18 million comparisons of such sets."""


def fingerprints_of_training(source: Source) -> Array:
    """Of the rows that a model is trained on."""
    return _together(_as_fed([source.train]) + _as_filed(source, [source.train]))


def fingerprints_of_test(source: Source) -> Array:
    """Of the public rows that a model is tested on."""
    return _together(_as_fed([source.test]) + _as_filed(source, [None, source.test]))


def fingerprints_of_all(source: Source) -> Array:
    """Of the rows that a model is trained on and of those that it is tested on."""
    both = [source.train, source.test]
    return _together(_as_fed(both) + _as_filed(source, both))


def shared(one: Array, other: Array) -> bool:
    """Whether any row is in both, to the last bit: as a model is fed with it, or as it stands in its file, in grey."""
    return len(np.intersect1d(one, other, assume_unique=True)) > 0


def to_text(found: Array) -> str:
    return base64.b64encode(found.astype("<u8").tobytes()).decode()


def from_text(text: str) -> Array:
    """What `to_text` wrote; anything else is a ValueError."""
    return np.frombuffer(base64.b64decode(text, validate=True), dtype="<u8").astype(np.uint64)


def _as_fed(parts: Iterable[Examples | None]) -> list[Tensor]:
    return [part.inputs for part in parts if part is not None and len(part)]


def _as_filed(source: Source, parts: list[Examples | None]) -> list[Tensor]:
    """Images before any resizing, in grey, so that neither size nor colour hides a copy; where files have one size."""
    if source.kind != "image" or source.origin is None:
        return []
    try:
        found: list[Tensor] = _as_fed(parts)
        if raw_shape(source.origin) != source.shape:
            found = [inputs for inputs, part in zip(raw_inputs(source.origin), parts, strict=False) if part is not None]
    except SordinoError:
        return []
    return [images.fit(inputs, resize=None, channels=1) for inputs in found]


def _together(parts: Iterable[Tensor]) -> Array:
    empty = np.zeros(0, np.uint64)
    found: Array = np.unique(np.concatenate([empty, *map(_of_rows, parts)]))
    return found


def _of_rows(inputs: Tensor) -> Array:
    """Rows of another shape or type are other rows."""
    about = blake2b(f"{tuple(inputs.shape[1:])} {inputs.dtype}".encode(), digest_size=blake2b.PERSON_SIZE).digest()
    rows = inputs.detach().to(torch.device("cpu")).contiguous().flatten(1).numpy()
    digests = b"".join(blake2b(row.data, digest_size=_BYTES, person=about).digest() for row in rows)
    return np.frombuffer(digests, dtype="<u8").astype(np.uint64)
