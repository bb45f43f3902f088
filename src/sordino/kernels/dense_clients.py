"""Chains of dense layers with ReLU between them, trained by plain SGD for many clients, each by one thread from start to end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from sordino.kernels.native import addresses, library, reachable


@dataclass(frozen=True, kw_only=True)
class DenseLayer:
    """A layer's size, and where its weight and its bias begin in a flat model."""

    inputs: int
    outputs: int
    weight: int
    bias: int | None


@dataclass(frozen=True, kw_only=True)
class DenseClient:
    """The flat model that a client starts from, its rows with their labels, and the rows of each step."""

    start: Tensor
    features: Tensor
    labels: Tensor
    batches: Sequence[Tensor]


def train_clients(
    layers: Sequence[DenseLayer], clients: Sequence[DenseClient], *, learning_rate: float, weight_decay: float
) -> Tensor | None:
    """One row for each client: its model after all steps, less its start. None where torch has to do it, or to complain."""
    kernels, width = library(), layers[0].inputs
    if kernels is None or not all(_is_plain(client, width) for client in clients):
        return None
    updates = torch.empty(len(clients), clients[0].start.numel())
    steps = [rows for client in clients for rows in client.batches]
    shapes = _table([(one.inputs, one.outputs, one.weight, -1 if one.bias is None else one.bias) for one in layers])
    batches = _table([(rows.data_ptr(), len(rows)) for rows in steps])
    people, first = [], 0
    for client, update in zip(clients, updates, strict=True):
        pointers = addresses(client.start, client.features, client.labels, update)
        people.append((*pointers, len(client.labels), first, len(client.batches)))
        first += len(client.batches)
    owners = _table(people)
    wrong = kernels.dense_clients(
        *addresses(shapes, owners, batches),
        len(layers),
        len(clients),
        max(len(rows) for rows in steps),
        learning_rate,
        1 - learning_rate * weight_decay,
        min(torch.get_num_threads(), len(clients)),
    )
    return None if wrong else updates


def _is_plain(client: DenseClient, width: int) -> bool:
    features = client.features
    return (
        reachable(features)
        and reachable(client.start)
        and features.shape == (len(client.labels), width)
        and features.is_contiguous()
        and client.start.is_contiguous()
        and client.labels.is_contiguous()
        and client.labels.device.type == "cpu"
    )


def _table(rows: Sequence[Sequence[int | None]]) -> Tensor:
    return torch.tensor(rows, dtype=torch.int64)
