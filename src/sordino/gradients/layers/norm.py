"""Normalisation layers: the gradients of scale and shift are sums over positions, in closed form."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sordino.gradients.layers.booking import Booking, Capture, Request, examples_per_block, materialise, slices
from sordino.kernels.group_norm import channel_sums, suits


def book_group_norm(capture: Capture, grads: Tensor, request: Request) -> dict[str, Booking]:
    layer = capture.layer
    assert isinstance(layer, nn.GroupNorm)
    inputs = capture.inputs
    mean, inverse_std = capture.statistics or _moments(inputs.reshape(len(inputs), layer.num_groups, -1), layer.eps)
    per_group = layer.num_channels // layer.num_groups
    mean, inverse_std = (
        moment.view(-1, layer.num_groups, 1).expand(-1, -1, per_group).flatten(1) for moment in (mean, inverse_std)
    )
    return _book_channels(inputs, grads, mean, inverse_std, request)


def book_instance_norm(capture: Capture, grads: Tensor, request: Request) -> dict[str, Booking]:
    layer = capture.layer
    assert isinstance(layer, nn.modules.instancenorm._InstanceNorm)
    if layer.running_mean is not None and not layer.training:
        return book_fixed_norm(capture, grads, request)
    mean, inverse_std = _moments(capture.inputs.flatten(2), layer.eps)
    return _book_channels(capture.inputs, grads, mean, inverse_std, request)


def book_fixed_norm(capture: Capture, grads: Tensor, request: Request) -> dict[str, Booking]:
    """Batch norm that uses its running statistics: a fixed scale and shift of each channel."""
    layer = capture.layer
    assert isinstance(layer, nn.modules.batchnorm._NormBase)
    assert layer.running_mean is not None and layer.running_var is not None
    inverse_std = torch.rsqrt(layer.running_var + layer.eps)
    return _book_channels(capture.inputs, grads, layer.running_mean, inverse_std, request)


def book_layer_norm(capture: Capture, grads: Tensor, request: Request) -> dict[str, Booking]:
    layer = capture.layer
    assert isinstance(layer, nn.LayerNorm)
    shape = tuple(layer.normalized_shape)
    bookings: dict[str, Booking] = {}
    if "weight" in request.wanted:
        normalised = F.layer_norm(capture.inputs, shape, eps=layer.eps)
        bookings["weight"] = materialise(_over_positions(normalised.mul_(grads), shape), request)
    if "bias" in request.wanted:
        bookings["bias"] = materialise(_over_positions(grads, shape), request)
    return bookings


def _over_positions(values: Tensor, shape: tuple[int, ...]) -> Tensor:
    return values.reshape(len(values), -1, *shape).sum(1)


def _moments(values: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    variance, mean = torch.var_mean(values, dim=-1, correction=0)
    return mean, torch.rsqrt(variance + eps)


def _book_channels(
    inputs: Tensor, grads: Tensor, mean: Tensor, inverse_std: Tensor, request: Request
) -> dict[str, Booking]:
    """From sum_p g and sum_p g·x, so that the normalised input is never formed."""
    shift, products = channel_sums(inputs, grads) if suits(inputs) else _sums(inputs, grads)
    bookings: dict[str, Booking] = {}
    if "weight" in request.wanted:
        bookings["weight"] = materialise((products - mean * shift) * inverse_std, request)
    if "bias" in request.wanted:
        bookings["bias"] = materialise(shift, request)
    return bookings


def _sums(inputs: Tensor, grads: Tensor) -> tuple[Tensor, Tensor]:
    if grads.dim() == 2:
        return grads, inputs * grads
    shift = grads.flatten(2).sum(2)
    products = torch.empty_like(shift)
    for examples in slices(len(inputs), examples_per_block(inputs[0].numel() * inputs.element_size())):
        products[examples] = (inputs[examples] * grads[examples]).flatten(2).sum(2)
    return shift, products
