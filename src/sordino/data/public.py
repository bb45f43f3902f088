"""Data that a person marked public: loaded in the shape of the private set, and named by what they hold."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

from sordino.core import SordinoError
from sordino.data.examples import Examples
from sordino.data.source import Source, SourceSettings, load
from sordino.settings import validated


def public_settings(table: Mapping[str, Any], *, shape: tuple[int, ...], where: str) -> SourceSettings:
    """How to load what was marked public, resized to images of this shape; anything not marked so is refused."""
    fitted = dict(table)
    if len(shape) == 3:
        fitted.setdefault("resize", shape[-1])
        fitted.setdefault("channels", shape[0])
    settings = validated(SourceSettings, fitted, where=where)
    if settings.visibility != "public":
        raise SordinoError(
            f"[{where}] needs data marked public, but {settings.source!r} is marked {settings.visibility}; only public data are free."
        )
    return settings


def public_source(table: Mapping[str, Any], *, shape: tuple[int, ...], seed: int, where: str) -> Source:
    """Load what was marked public."""
    return load(public_settings(table, shape=shape, where=where), seed=seed)


def digest(examples: Examples) -> str:
    """The same for the same examples in the same order and normalisation, and for no others."""
    found = blake2b(repr(dataclasses.astuple(examples.normalisation)).encode(), digest_size=16)
    for tensor in (examples.inputs, examples.labels):
        found.update(repr((tuple(tensor.shape), tensor.dtype)).encode())
        found.update(tensor.cpu().contiguous().numpy().data)
    return found.hexdigest()
