"""What a model builder is, and where builders are found."""

from __future__ import annotations

from typing import Protocol

from sordino.conformity import Advice
from sordino.core import SordinoError
from sordino.models.inputs import Inputs
from sordino.models.parts import Net
from sordino.registry import Registry


class Builder(Protocol):
    """Settings of one kind of model; `build` makes a fresh model for the inputs at hand, or says why it cannot.

    Weights are drawn by torch's own generator, which is seeded when `build` is called.

    Example:
        see `sordino.models.mlp.Mlp`, or "Add a model" in CONTRIBUTING.md
    """

    def build(self, inputs: Inputs, classes: int) -> Net:
        """A model with random weights that gives logits of shape (batch, classes)."""
        ...


MODELS: Registry[type[Builder]] = Registry(
    "model",
    "sordino.models",
    Builder,
    Advice(names={"build": "write build(inputs, classes) that returns a Net, or name a function of (shape, classes)"}),
)


def require_at_least(least: int, **settings: int) -> None:
    """Refuse the first setting that is too small."""
    for name, value in settings.items():
        if value < least:
            raise SordinoError(f"[model] {name} must be at least {least}, but got {value}; choose a larger one.")
