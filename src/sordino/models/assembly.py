"""From a name and settings to a model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from sordino.core import SordinoError
from sordino.models.custom import build_custom
from sordino.models.inputs import Inputs
from sordino.models.parts import Net
from sordino.models.registry import MODELS
from sordino.settings import validated


def build(
    name: str, *, shape: tuple[int, ...], classes: int, seed: int | None = None, vocabulary: int = 0, **settings: Any
) -> Net:
    """The model called `name`, or the one that `your.module:function` returns; the same seed gives the same weights."""
    inputs = Inputs(shape=shape, vocabulary=vocabulary)
    if classes < 1:
        raise SordinoError(f"A model needs at least one class, but got {classes}; check the data source.")
    with seeded(seed):
        if ":" in name:
            return build_custom(name, inputs, classes, settings)
        return validated(MODELS[name], settings, where="model").build(inputs, classes)


@contextmanager
def seeded(seed: int | None) -> Iterator[None]:
    """Weights drawn inside come from this seed and leave torch's own generator as it was."""
    if seed is None:
        yield
        return
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield
