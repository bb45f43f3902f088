"""What a layer keeps of one batch: each example's gradient of one parameter, in the cheapest form to sum."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from sordino.core import Norm


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What the engine wants of a layer: which of its parameters, under which norm, and whether as whole rows."""

    wanted: frozenset[str]
    norm: Norm
    whole_rows: bool = False

    @property
    def order(self) -> int:
        return 2 if self.norm == "l2" else 1


@dataclass(slots=True)
class Capture:
    """One call of one layer: its input, the gradient of its output, and what the forward pass already computed."""

    layer: nn.Module
    inputs: Tensor
    version: int
    statistics: tuple[Tensor, Tensor] | None = None


class Booking(ABC):
    """The per-example gradients of one parameter."""

    norms: Tensor

    @abstractmethod
    def add_weighted(self, factors: Tensor, into: Tensor) -> None:
        """Add the sum of every example's gradient times its factor to `into`, which has the parameter's shape."""

    @abstractmethod
    def forget(self, examples: Tensor) -> None:
        """Make the masked examples' gradients exactly zero, so that no NaN survives a factor of zero."""

    @abstractmethod
    def rows(self) -> Tensor:
        """One flattened gradient per example."""


class Materialised(Booking):
    """Gradients held as rows, in any layout that `arrange` turns into the parameter's shape."""

    def __init__(self, stored: Tensor, norms: Tensor, arrange: Callable[[Tensor], Tensor] | None = None) -> None:
        self._stored = stored.flatten(1)
        self._shape = stored.shape[1:]
        self._arrange = arrange
        self.norms = norms

    def add_weighted(self, factors: Tensor, into: Tensor) -> None:
        if self._arrange is None:
            into.view(-1).addmv_(self._stored.t(), factors)
        else:
            into.add_(self._arrange(torch.mv(self._stored.t(), factors).view(self._shape)).view(into.shape))

    def forget(self, examples: Tensor) -> None:
        self._stored = self._stored.masked_fill(examples[:, None], 0)

    def rows(self) -> Tensor:
        stored = self._stored.view(len(self._stored), *self._shape)
        return (torch.stack([self._arrange(row) for row in stored]) if self._arrange else stored).flatten(1)


class Recontracted(Booking):
    """Gradients held as the layer's input and output gradient; the weighted sum contracts them once more."""

    def __init__(self, inputs: Tensor, grads: Tensor, norms: Tensor) -> None:
        self.inputs = inputs
        self.grads = grads
        self.norms = norms

    def forget(self, examples: Tensor) -> None:
        if self.inputs.is_floating_point():
            self.inputs = self.inputs.masked_fill(_over_rows(examples, self.inputs), 0)
        self.grads = self.grads.masked_fill(_over_rows(examples, self.grads), 0)

    def scaled_grads(self, factors: Tensor) -> Tensor:
        return self.grads * _over_rows(factors, self.grads)


def materialise(stored: Tensor, request: Request, arrange: Callable[[Tensor], Tensor] | None = None) -> Materialised:
    """Rows that are small enough to be normed in one go."""
    return Materialised(stored, torch.linalg.vector_norm(stored.flatten(1), request.order, dim=1), arrange)


def slices(batch: int, size: int) -> Iterator[slice]:
    """The batch in slices of at most `size` examples."""
    for start in range(0, batch, size):
        yield slice(start, min(batch, start + size))


def examples_per_block(bytes_per_example: int, block_bytes: int = 8 << 20) -> int:
    """How many examples keep a scratch buffer inside the processor's last-level cache."""
    return max(1, block_bytes // max(1, bytes_per_example))


def _over_rows(values: Tensor, like: Tensor) -> Tensor:
    return values.view(-1, *[1] * (like.dim() - 1))
