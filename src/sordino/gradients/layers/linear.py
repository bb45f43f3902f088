"""Linear layers, over any leading dimensions after the batch."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from sordino.gradients.layers.booking import (
    Booking,
    Capture,
    Materialised,
    Recontracted,
    Request,
    input_norms,
    materialise,
    row_norms,
    units_short,
)
from sordino.gradients.layers.contraction import Contraction, book_weight


class OuterProduct(Recontracted):
    """One position per example: the gradient is g a^T, and both its norms are products of norms."""

    def __init__(self, inputs: Tensor, grads: Tensor, norms: Tensor) -> None:
        super().__init__(inputs, grads, norms)
        self.units = units_short(inputs.shape[1]) + units_short(grads.shape[1])

    def add_weighted(self, factors: Tensor, into: Tensor) -> None:
        into.addmm_(self.scaled_grads(factors).t(), self.inputs)

    def rows(self) -> Tensor:
        return torch.einsum("bo,bi->boi", self.grads, self.inputs).flatten(1)


class LinearContraction(Contraction):
    """Positions are the leading dimensions; patches are the inputs themselves."""

    def __init__(self, inputs: Tensor, grads: Tensor) -> None:
        super().__init__(inputs, grads)
        _, self.positions, self.fan_in = inputs.shape
        self.fan_out = grads.shape[2]

    def patches(self, examples: slice) -> Tensor:
        return self.inputs[examples]

    def outputs(self, examples: slice) -> Tensor:
        return self.grads[examples]

    def patch_gram(self, examples: slice) -> Tensor:
        return torch.bmm(self.inputs[examples], self.inputs[examples].transpose(1, 2))

    def arrange(self, total: Tensor) -> Tensor:
        return total

    def contract(self, inputs: Tensor, grads: Tensor, into: Tensor) -> None:
        into.addmm_(grads.flatten(0, 1).t(), inputs.flatten(0, 1))

    def patch_gram_cost(self) -> int:
        return self.positions**2 * self.fan_in

    def patch_elements(self) -> int:
        return 0


def book_linear(capture: Capture, grads: Tensor, request: Request) -> dict[str, Booking]:
    assert isinstance(capture.layer, nn.Linear)
    inputs = capture.inputs
    if inputs.dim() > 2:
        return book_sequence(inputs.flatten(1, -2), grads.flatten(1, -2), request)
    bookings: dict[str, Booking] = {}
    grad_norms = row_norms(grads, request.order)
    if "weight" in request.wanted:
        bookings["weight"] = OuterProduct(inputs, grads, input_norms(inputs, request.order) * grad_norms)
    if "bias" in request.wanted:
        bookings["bias"] = Materialised(grads, grad_norms)
    return bookings


def book_sequence(inputs: Tensor, grads: Tensor, request: Request) -> dict[str, Booking]:
    """The same weight at several positions of each example: both tensors are (examples, positions, numbers)."""
    bookings: dict[str, Booking] = {}
    if "weight" in request.wanted:
        bookings["weight"] = book_weight(LinearContraction(inputs, grads), request)
    if "bias" in request.wanted:
        bookings["bias"] = materialise(grads.sum(1), request)
    return bookings
