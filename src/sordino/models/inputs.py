"""What a model is fed, and the sentence for a model that cannot eat it."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from sordino.core import SordinoError


class RefusedInputs(SordinoError):
    """A model that cannot take examples of this kind; others it may take."""


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """What one example looks like. `images`, `numbers` and `tokens` give its sizes, or refuse a model that cannot take it.

    Args:
        shape: of one example, without the batch: (channels, height, width), (columns,) or (tokens,).
        vocabulary: how many kinds of tokens there are; 0 where examples are no text.

    Example:
        `channels, height, width = inputs.images("my-model", least=8)`
    """

    shape: tuple[int, ...]
    vocabulary: int = 0

    def __post_init__(self) -> None:
        if not self.shape or min(self.shape) < 1 or self.vocabulary < 0:
            raise SordinoError(
                f"A model needs examples with at least one number each, but got shape {self.shape} with a vocabulary of "
                f"{self.vocabulary}; check the data source."
            )

    def __str__(self) -> str:
        size = "x".join(str(length) for length in self.shape)
        return f"text of {size} tokens" if self.vocabulary else f"examples of shape {size}"

    def images(self, model: str, *, least: int) -> tuple[int, int, int]:
        """Channels, height and width of images with at least `least` pixels on each side."""
        if self.vocabulary or len(self.shape) != 3:
            instead = "lstm" if self.vocabulary else "mlp"
            raise RefusedInputs(
                f"Model {model!r} needs images (channels x height x width), but the data are {self}; "
                f"choose {instead!r}."
            )
        channels, height, width = self.shape
        if min(height, width) < least:
            raise RefusedInputs(
                f"Model {model!r} needs images of at least {least}x{least} pixels, but the data are {self}; "
                "resize them or choose 'mlp'."
            )
        return channels, height, width

    def numbers(self, model: str) -> int:
        """How many numbers one example holds."""
        if self.vocabulary:
            raise RefusedInputs(f"Model {model!r} needs numbers, but the data are {self}; choose 'lstm'.")
        return prod(self.shape)

    def tokens(self, model: str) -> int:
        """How many kinds of tokens there are."""
        if not self.vocabulary or len(self.shape) != 1:
            instead = "cnn" if len(self.shape) == 3 else "mlp"
            raise RefusedInputs(f"Model {model!r} needs text, but the data are {self}; choose {instead!r}.")
        return self.vocabulary
