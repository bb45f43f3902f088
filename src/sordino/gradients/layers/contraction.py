"""Weights whose gradient is a sum over positions of an outer product: one rule for linear layers and convolutions.

Example i has gradient sum_p g_ip a_ip^T, with P positions, K inputs and O outputs. Its norm costs either the whole
gradient (P·K·O, plus writing and reading it) or two Gram matrices over positions (the ghost norm); the estimate below
picks one from the shapes alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from sordino.gradients.layers.booking import Booking, Materialised, Recontracted, Request, examples_per_block, slices

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
    norms = geometry.grads.new_empty(batch)
    keep = request.whole_rows or not ghost
    shape = (geometry.blocks, geometry.fan_out, geometry.fan_in)
    kept = geometry.grads.new_empty(batch, *shape) if keep else None
    for examples in _blocks(geometry):
        rows = rows_of(geometry, examples, None if kept is None else kept[examples])
        norms[examples] = torch.linalg.vector_norm(rows.flatten(1), request.order, dim=1)
    return RecontractedWeight(geometry, norms) if kept is None else Materialised(kept, norms, geometry.arrange)


def rows_of(geometry: Contraction, examples: slice, into: Tensor | None = None) -> Tensor:
    """Per-example gradients of a slice, as (examples, blocks, O, K)."""
    grads, patches = geometry.outputs(examples).transpose(1, 2), geometry.patches(examples)
    if into is None:
        return torch.bmm(grads, patches).view(-1, geometry.blocks, geometry.fan_out, geometry.fan_in)
    torch.bmm(grads, patches, out=into.view(-1, geometry.fan_out, geometry.fan_in))
    return into


def ghost_norms(geometry: Contraction) -> Tensor:
    """Norms from Gram matrices, never below the true norm.

    Products of Gram entries may cancel, so the rounding they can carry is added: the entries' absolute sum is at most
    the squared sum of the diagonal's square roots, and each is good to about a root of the fan, in units of precision.
    """
    batch = geometry.grads.shape[0]
    squared = geometry.grads.new_empty(batch)
    slack = 4 * torch.finfo(squared.dtype).eps * (geometry.fan_in + geometry.fan_out) ** 0.5
    gram_bytes = geometry.blocks * geometry.positions**2 * squared.element_size() * 2
    for examples in slices(batch, examples_per_block(gram_bytes)):
        outputs = geometry.outputs(examples)
        inputs_gram, outputs_gram = geometry.patch_gram(examples), torch.bmm(outputs, outputs.transpose(1, 2))
        diagonal = (inputs_gram.diagonal(dim1=1, dim2=2) * outputs_gram.diagonal(dim1=1, dim2=2)).clamp_(min=0).sqrt_()
        products = inputs_gram.mul_(outputs_gram).sum((1, 2)) + slack * diagonal.sum(1).square_()
        squared[examples] = products.view(-1, geometry.blocks).sum(1)
    return squared.sqrt_()


def _blocks(geometry: Contraction) -> list[slice]:
    patch_bytes = geometry.blocks * geometry.positions * geometry.fan_in * geometry.grads.element_size()
    return list(slices(geometry.grads.shape[0], examples_per_block(patch_bytes)))
