"""Weights whose gradient is a sum over positions of an outer product: one rule for linear layers and convolutions.

Example i has gradient sum_p g_ip a_ip^T, with P positions, K inputs and O outputs. Its norm costs either the whole
gradient (P·K·O, plus writing and reading it) or two Gram matrices over positions (the ghost norm); the estimate below
picks one from the shapes alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from sordino.gradients.layers.booking import (
    Booking,
    Materialised,
    Recontracted,
    Request,
    examples_per_block,
    input_norms,
    row_norms,
    slices,
    units_short,
)

# Multiply-adds that take as long as touching one element, measured on AVX2 cores: an element of a kept row is written
# and read twice, a copied patch element is written once, a box-summed Gram element is read and added out of cache.
ROW_COST, PATCH_COST, BOX_COST = 30, 5, 20


class Contraction(ABC):
    """The geometry of one call: how positions, inputs and outputs lie in its tensors."""

    positions: int
    fan_in: int
    fan_out: int
    blocks: int = 1

    def __init__(self, inputs: Tensor, grads: Tensor) -> None:
        self.inputs = inputs
        self.grads = grads

    @abstractmethod
    def patches(self, examples: slice) -> Tensor:
        """Inputs as (examples·blocks, P, K)."""

    @abstractmethod
    def outputs(self, examples: slice) -> Tensor:
        """Output gradients as (examples·blocks, P, O)."""

    @abstractmethod
    def patch_gram(self, examples: slice) -> Tensor:
        """Inner products of an example's patches, as (examples·blocks, P, P)."""

    @abstractmethod
    def arrange(self, total: Tensor) -> Tensor:
        """From (blocks, O, K) to the weight's shape."""

    @abstractmethod
    def contract(self, inputs: Tensor, grads: Tensor, into: Tensor) -> None:
        """Add the plain weight gradient of a batch to `into`."""

    @abstractmethod
    def patch_gram_cost(self) -> int: ...

    @abstractmethod
    def patch_elements(self) -> int:
        """Elements copied per example to make patches; zero when they are a view."""

    @property
    def row_elements(self) -> int:
        return self.blocks * self.fan_in * self.fan_out

    def ghost_is_cheaper(self) -> bool:
        ghost = self.patch_gram_cost() + self.blocks * self.positions**2 * self.fan_out
        return ghost < ROW_COST * self.row_elements + PATCH_COST * self.patch_elements()


class RecontractedWeight(Recontracted):
    """A weight whose rows were too dear to keep."""

    def __init__(self, geometry: Contraction, norms: Tensor) -> None:
        super().__init__(geometry.inputs, geometry.grads, norms)
        self.units = units_short(geometry.row_elements)
        self._geometry = geometry

    def add_weighted(self, factors: Tensor, into: Tensor) -> None:
        self._geometry.contract(self.inputs, self.scaled_grads(factors), into)

    def rows(self) -> Tensor:
        stored = torch.cat([rows_of(self._geometry, examples) for examples in _blocks(self._geometry)])
        return torch.stack([self._geometry.arrange(row) for row in stored]).flatten(1)


def book_weight(geometry: Contraction, request: Request) -> Booking:
    """The cheaper booking for this geometry."""
    ghost = geometry.ghost_is_cheaper()
    if ghost and request.norm == "l2" and not request.whole_rows:
        return RecontractedWeight(geometry, ghost_norms(geometry))
    batch = geometry.grads.shape[0]
    norms = geometry.grads.new_empty(batch, dtype=torch.float64)
    keep = request.whole_rows or not ghost
    shape = (geometry.blocks, geometry.fan_out, geometry.fan_in)
    kept = geometry.grads.new_empty(batch, *shape) if keep else None
    for examples in _blocks(geometry):
        rows = rows_of(geometry, examples, None if kept is None else kept[examples])
        norms[examples] = row_norms(rows.flatten(1), request.order)
        if kept is None:
            norms[examples] += _strayed(geometry, examples, request.order)
    return RecontractedWeight(geometry, norms) if kept is None else Materialised(kept, norms, geometry.arrange)


def rows_of(geometry: Contraction, examples: slice, into: Tensor | None = None) -> Tensor:
    """Per-example gradients of a slice, as (examples, blocks, O, K)."""
    grads, patches = geometry.outputs(examples).transpose(1, 2), geometry.patches(examples)
    if into is None:
        return torch.bmm(grads, patches).view(-1, geometry.blocks, geometry.fan_out, geometry.fan_in)
    torch.bmm(grads, patches, out=into.view(-1, geometry.fan_out, geometry.fan_in))
    return into


def _strayed(geometry: Contraction, examples: slice, order: int) -> Tensor:
    """How far apart the norms of rows and of the same rows contracted once more may be, through rounding alone.

    Formal guarantee: a sum of P products is off by at most (P + 1)·u times the sum of their sizes, in any order, so either way of
    computing sum_p g_p a_p^T strays by at most (P + 1)·u·sum_p |g_p||a_p| in either norm, and scaling g adds one u.
    """
    inputs, outputs = geometry.patches(examples), geometry.outputs(examples)
    sizes = input_norms(inputs.flatten(0, 1), order) * row_norms(outputs.flatten(0, 1), order)
    return (
        (2 * geometry.positions + 4)
        * _unit(outputs)
        * sizes.double().view(-1, geometry.blocks * geometry.positions).sum(1)
    )


def ghost_norms(geometry: Contraction) -> Tensor:
    """Norms from Gram matrices, never below the norm of the gradient as it will be contracted.

    Formal guarantee: let D = sum_p |g_p||a_p|. Entry (p, q) of the two Gram matrices is off by at most K·u·|a_p||a_q| and
    O·u·|g_p||g_q|, and summing P of their products in a row by P·u more, so the squared norm is off by at most
    (K + O + P)·u·D²; rows are summed in double. Contracting the gradient once more strays by (P + 2)·u·D. Both are added, a
    little enlarged for products of such terms. Squares too small to be stored are made up for on the diagonal.
    """
    batch, blocks, unit = geometry.grads.shape[0], geometry.blocks, _unit(geometry.grads)
    norms = geometry.grads.new_empty(batch, dtype=torch.float64)
    tiny = torch.finfo(geometry.grads.dtype).tiny
    slack = (geometry.fan_in + geometry.fan_out + geometry.positions + 8) * unit
    gram_bytes = blocks * geometry.positions**2 * geometry.grads.element_size() * 2
    for examples in slices(batch, examples_per_block(gram_bytes)):
        outputs = geometry.outputs(examples)
        inputs_gram, outputs_gram = geometry.patch_gram(examples), torch.bmm(outputs, outputs.transpose(1, 2))
        inputs_size = inputs_gram.diagonal(dim1=1, dim2=2).clamp(min=0).add_(geometry.fan_in * tiny).sqrt_()
        outputs_size = outputs_gram.diagonal(dim1=1, dim2=2).clamp(min=0).add_(geometry.fan_out * tiny).sqrt_()
        sizes = (inputs_size.double() * outputs_size).sum(1).square_()
        squares = inputs_gram.mul_(outputs_gram).sum(2).sum(1, dtype=torch.float64).clamp_(min=0)
        squares, sizes = ((squares + slack * sizes).view(-1, blocks).sum(1), sizes.view(-1, blocks).sum(1))
        norms[examples] = squares.sqrt_() + (geometry.positions + 4) * unit * sizes.sqrt_()
    return norms


def _unit(values: Tensor) -> float:
    """The unit of rounding of these values, a tenth enlarged."""
    return 0.55 * torch.finfo(values.dtype).eps


def _blocks(geometry: Contraction) -> list[slice]:
    patch_bytes = geometry.blocks * geometry.positions * geometry.fan_in * geometry.grads.element_size()
    return list(slices(geometry.grads.shape[0], examples_per_block(patch_bytes)))
