"""What a layer keeps of one batch: each example's gradient of one parameter, in the cheapest form to sum."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor, nn

from sordino.core import Norm

PIECE = 1024
"""Numbers whose norm is summed in their own precision; longer rows are normed in such pieces, and these joined in double."""

ROUNDING_UNITS = 16
"""How many times `eps` a clip factor is lowered by, besides what norms may be short of: for rounding it and what it scales."""


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
    """The per-example gradients of one parameter.

    Formal guarantee: what `add_weighted` adds for one example alone, with factor f ≤ 1, has norm at most f times its entry in
    `norms`, but for a share of `units` + ROUNDING_UNITS times `eps`. So norms are taken of the very numbers that are added, or
    they carry a proven bound on how far another way of computing them may stray.
    """

    norms: Tensor
    units: int = 0
    """By how many times `eps` of themselves the norms may be too short."""

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
        self.units = units_short(self._stored.shape[1])

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
    """Rows that are kept as they will be added."""
    return Materialised(stored, row_norms(stored.flatten(1), request.order), arrange)


def row_norms(rows: Tensor, order: int) -> Tensor:
    """The norm of every row, too short by at most `units_short` times `eps` of itself.

    Formal guarantee: u is half the `eps` of the rows' type. A sum of n numbers of one sign, added in any order, is off by less than n·u
    of itself, a square and a root by u each, and halving in the root is not counted on. No more than PIECE numbers are added
    in the rows' own precision. Squares too small to be stored lose at most n·tiny together, so √(n·tiny) is added.
    """
    length = rows.shape[1]
    if length <= PIECE:
        norms: Tensor = torch.linalg.vector_norm(rows, order, dim=1)
        return norms.add_(_vanished(length, rows.dtype)) if order == 2 else norms
    even = length - length % PIECE
    pieces = torch.linalg.vector_norm(rows[:, :even].unflatten(1, (-1, PIECE)), order, dim=2)
    if even < length:
        rest = torch.linalg.vector_norm(rows[:, even:], order, dim=1, keepdim=True)
        pieces = torch.cat([pieces, rest], dim=1)
    joined: Tensor = torch.linalg.vector_norm(pieces, order, dim=1, dtype=torch.float64)
    return joined.add_(_vanished(length, rows.dtype))


@cache
def _vanished(count: int, dtype: torch.dtype) -> Tensor:
    """What so many squares can lose, as a tensor: adding one is much faster than adding a number."""
    return torch.tensor((count * torch.finfo(dtype).tiny) ** 0.5, dtype=dtype)


def units_short(length: int) -> int:
    """How many times `eps` of itself a norm of so many numbers may be too short by."""
    return min(length, PIECE) // 2 + 2


def input_norms(inputs: Tensor, order: int) -> Tensor:
    """The same for a layer's inputs, which scaled output gradients are multiplied with; infinite beyond 1/√tiny.

    A scaled gradient too small to be stored exactly is rounded by `tiny`·u at most, and such an input would blow that up to
    something that counts. Squares of such inputs overflow by themselves.
    """
    norms = row_norms(inputs, order)
    if order == 2:
        return norms
    largest, infinite = _limits(inputs.dtype)
    return torch.where(norms <= largest, norms, infinite)


@cache
def _limits(dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    return torch.tensor(torch.finfo(dtype).tiny ** -0.5, dtype=dtype), torch.tensor(torch.inf, dtype=dtype)


def slices(batch: int, size: int) -> Iterator[slice]:
    """The batch in slices of at most `size` examples."""
    for start in range(0, batch, size):
        yield slice(start, min(batch, start + size))


def examples_per_block(bytes_per_example: int, block_bytes: int = 8 << 20) -> int:
    """How many examples keep a scratch buffer inside the processor's last-level cache."""
    return max(1, block_bytes // max(1, bytes_per_example))


def _over_rows(values: Tensor, like: Tensor) -> Tensor:
    return values.view(-1, *[1] * (like.dim() - 1))
