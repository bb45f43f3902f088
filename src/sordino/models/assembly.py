"""From a name and settings to a model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from sordino.core import SordinoError
from sordino.models.custom import build_custom
from sordino.models.inputs import Inputs
from sordino.models.parts import Net
from sordino.models.registry import MODELS
from sordino.outside import imported
from sordino.sentences import with_article
from sordino.settings import validated


def build(
    name: str, *, shape: tuple[int, ...], classes: int, seed: int | None = None, vocabulary: int = 0, **settings: Any
) -> Net:
    """The model called `name`, or the one that `your.module:function` returns; the same seed gives the same weights.

    `your.module:Class` may be such a function, a `torch.nn.Module` that takes shape and classes, or a builder.
    """
    inputs = Inputs(shape=shape, vocabulary=vocabulary)
    if classes < 1:
        raise SordinoError(f"A model needs at least one class, but got {classes}; check the data source.")
    with seeded(seed):
        if ":" in name and (function := _function(name)) is not None:
            return build_custom(name, function, inputs, classes, settings)
        return _net(name, validated(MODELS[name], settings, where="model").build(inputs, classes))


def _net(name: str, built: object) -> Net:
    """What a builder returned, if it has parts."""
    if not isinstance(built, Net):
        raise SordinoError(
            f"{name!r} should return a Net, but returned {with_article(type(built).__name__)}; write Net(body=…, head=…), "
            "or name a function."
        )
    return built


def _function(path: str) -> Callable[..., object] | None:
    """What makes a model of the user's own; None where the path names a builder, which is found like one of ours."""
    found = imported(path, axis="model")
    if not callable(found):
        raise SordinoError(f"{path} must be a function or a builder, but it is {type(found).__name__}.")
    is_builder = isinstance(found, type) and not issubclass(found, nn.Module)
    return None if is_builder else found


@contextmanager
def seeded(seed: int | None) -> Iterator[None]:
    """Weights drawn inside come from this seed and leave torch's own generator as it was; without a seed nothing is changed.

    Example:
        `with seeded(7): layer = nn.Linear(3, 2)`
    """
    if seed is None:
        yield
        return
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield
