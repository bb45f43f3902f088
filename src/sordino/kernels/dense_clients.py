"""Chains of dense layers with ReLU between them, trained by plain SGD for many clients, each by one thread from start to end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from sordino.kernels.native import addresses, library


@dataclass(frozen=True, kw_only=True)
class DenseLayer:
    """A layer's size, and where its weight and its bias begin in a flat model, which holds nothing but layers."""

    inputs: int
    outputs: int
    weight: int
    bias: int | None


@dataclass(frozen=True, kw_only=True)
class DenseClient:
    """The flat model that a client starts from, its rows with their labels, and the order of the rows in each epoch."""

    start: Tensor
    features: Tensor
    labels: Tensor
    orders: Sequence[Tensor]


def train_clients(
    layers: Sequence[DenseLayer],
    clients: Sequence[DenseClient],
    *,
    batch_size: int,
    learning_rate: float,
    weight_decay: float,
) -> Tensor | None:
    """One row for each client: its model after all epochs, less its start. None where torch has to do it, or to complain."""
    kernels, width, epochs = library(), layers[0].inputs, len(clients[0].orders)
    if kernels is None or not all(_is_plain(client, width, epochs) for client in clients):
        return None
    updates = torch.empty(len(clients), clients[0].start.numel())
    shapes = _table([(one.inputs, one.outputs, one.weight, -1 if one.bias is None else one.bias) for one in layers])
    orders = _table([addresses(*client.orders) for client in clients])
    people = _table(
        [
            (*addresses(client.start, client.features, client.labels, order, update), client.labels.numel())
            for client, order, update in zip(clients, orders, updates, strict=True)
        ]
    )
    wrong = kernels.dense_clients(
        *addresses(shapes, people),
        len(layers),
        len(clients),
        epochs,
        batch_size,
        learning_rate,
        1 - learning_rate * weight_decay,
        min(torch.get_num_threads(), len(clients)),
    )
    return None if wrong else updates


def _is_plain(client: DenseClient, width: int, epochs: int) -> bool:
    """Whether every tensor is what the kernel reads: whole, in this memory, of the right kind and size."""
    rows = client.labels.numel()
    return (
        _lies_flat(client.features, torch.float32, (rows, width))
        and _lies_flat(client.start, torch.float32, client.start.shape)
        and _lies_flat(client.labels, torch.int64, (rows,))
        and len(client.orders) == epochs
        and all(_lies_flat(order, torch.int64, (rows,)) for order in client.orders)
    )


def _lies_flat(tensor: Tensor, dtype: torch.dtype, shape: Sequence[int]) -> bool:
    return tensor.dtype == dtype and tensor.is_cpu and tensor.is_contiguous() and tensor.shape == shape


def _table(rows: Sequence[Sequence[int | None]]) -> Tensor:
    return torch.tensor(rows, dtype=torch.int64)
