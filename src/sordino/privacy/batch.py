"""The gradients of one batch, as a mechanism sees them when it decides what is bounded and released of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

from sordino.privacy.clipping import Clip, ClippedContributions

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from sordino.core import Private

T = TypeVar("T")


class ClippedBatch(ClippedContributions, Protocol):
    """The sum of clipped gradients, with the norms that they had before."""

    @property
    def norms(self) -> Tensor: ...


class GradientBatch(Protocol):
    """One batch of examples at one model. Whatever is computed from the examples stays private until it is bounded."""

    @property
    def units(self) -> int:
        """How many examples were drawn."""
        ...

    @property
    def expected_units(self) -> float:
        """How many are drawn on average: the public number."""
        ...

    @property
    def sizes(self) -> Sequence[int]:
        """How many numbers each trained parameter has, in the order of a gradient."""
        ...

    def clipped_sum(self, clip: Clip) -> Private[ClippedBatch]:
        """The sum of the examples' gradients, each clipped; the fast path."""
        ...

    def over_gradients(self, function: Callable[[Iterator[Tensor]], T]) -> Private[T]:
        """What `function` makes of the gradients themselves, which it gets a few examples at a time, one a row."""
        ...

    def public_gradients(self) -> Tensor:
        """The gradients of the public examples that the mechanism asked for, one a row."""
        ...

    def generator(self, purpose: str) -> torch.Generator:
        """Public randomness of this step, named by what it is for."""
        ...


@dataclass(frozen=True, kw_only=True)
class Step:
    """What a mechanism made of a batch: a noisy sum of gradients, and the clip of the next step."""

    total: Tensor
    clip: Clip
