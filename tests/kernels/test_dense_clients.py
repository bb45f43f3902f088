"""Clients trained by the kernel get the updates that torch would give them, each its own."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, relu

from sordino.kernels import dense_clients
from sordino.kernels.dense_clients import DenseClient, DenseLayer, train_clients
from sordino.kernels.native import library

pytestmark = pytest.mark.skipif(library() is None, reason="no compiled kernels on this machine")
RATE = 0.1
FLOAT32_ERROR = 1e-5
"""Of the largest parameter: some steps, each of sums of some hundred products in single precision."""


def chain(widths: tuple[int, ...], *, bias: bool = True) -> list[DenseLayer]:
    layers, at = [], 0
    for inputs, outputs in pairwise(widths):
        end = at + inputs * outputs
        layers.append(DenseLayer(inputs=inputs, outputs=outputs, weight=at, bias=end if bias else None))
        at = end + bias * outputs
    return layers


def clients(layers: list[DenseLayer], sizes: tuple[int, ...], *, epochs: int = 1, seed: int = 0) -> list[DenseClient]:
    draw = torch.Generator().manual_seed(seed)
    widest = max(one.inputs for one in layers)
    numbers = max(max(one.weight + one.inputs * one.outputs, (one.bias or 0) + one.outputs) for one in layers)
    return [
        DenseClient(
            start=torch.randn(numbers, generator=draw) / math.sqrt(widest),
            features=torch.randn(size, layers[0].inputs, generator=draw),
            labels=torch.randint(layers[-1].outputs, (size,), generator=draw),
            orders=[torch.randperm(size, generator=draw) for _ in range(epochs)],
        )
        for size in sizes
    ]


def exact_update(layers: list[DenseLayer], client: DenseClient, *, batch: int, weight_decay: float) -> Tensor:
    """By torch in double precision."""
    model = client.start.double().requires_grad_()
    for rows in (rows for order in client.orders for rows in order.split(batch) if len(rows)):
        hidden = client.features[rows].double()
        for place, layer in enumerate(layers):
            weight = model[layer.weight :][: layer.inputs * layer.outputs].view(layer.outputs, layer.inputs)
            bias = None if layer.bias is None else model[layer.bias :][: layer.outputs]
            hidden = nn.functional.linear(relu(hidden) if place else hidden, weight, bias)
        (gradient,) = torch.autograd.grad(cross_entropy(hidden, client.labels[rows]), model)
        model = (model - RATE * (gradient + weight_decay * model)).detach().requires_grad_()
    return model.detach() - client.start


def train(
    layers: list[DenseLayer], people: list[DenseClient], *, batch: int, weight_decay: float = 0.0
) -> Tensor | None:
    return train_clients(layers, people, batch_size=batch, learning_rate=RATE, weight_decay=weight_decay)


def assert_exact(layers: list[DenseLayer], people: list[DenseClient], *, batch: int, weight_decay: float = 0.0) -> None:
    updates = train(layers, people, batch=batch, weight_decay=weight_decay)
    assert updates is not None
    for update, client in zip(updates, people, strict=True):
        truth = exact_update(layers, client, batch=batch, weight_decay=weight_decay)
        assert (update - truth).abs().max() <= FLOAT32_ERROR * client.start.abs().max()


@settings(deadline=None, max_examples=80)
@given(
    widths=st.lists(st.integers(1, 40), min_size=2, max_size=5),
    bias=st.booleans(),
    sizes=st.lists(st.integers(0, 20), min_size=1, max_size=4),
    batch=st.integers(1, 24),
    epochs=st.integers(1, 3),
    weight_decay=st.sampled_from([0.0, 0.1]),
)
def test_updates(widths: list[int], bias: bool, sizes: list[int], batch: int, epochs: int, weight_decay: float) -> None:
    layers = chain(tuple(widths), bias=bias)
    assert_exact(layers, clients(layers, tuple(sizes), epochs=epochs), batch=batch, weight_decay=weight_decay)


@pytest.mark.parametrize("widths", [(784, 64, 10), (300, 130, 70, 5), (129, 17), (16, 16, 16)])
@pytest.mark.parametrize("batch", [64, 150])
def test_updates_of_larger_layers_and_batches(widths: tuple[int, ...], batch: int) -> None:
    layers = chain(widths)
    assert_exact(layers, clients(layers, (150, 64, 1)), batch=batch)


def test_everyone_may_start_from_the_same_model() -> None:
    layers = chain((20, 9, 3))
    first, *others = clients(layers, (7, 12, 5))
    before = first.start.clone()
    people = [first, *(DenseClient(**{**other.__dict__, "start": first.start}) for other in others)]
    assert_exact(layers, people, batch=4)
    assert torch.equal(first.start, before)


def test_parameters_may_lie_in_any_order() -> None:
    layers = [
        DenseLayer(inputs=11, outputs=5, weight=23, bias=18),
        DenseLayer(inputs=5, outputs=3, weight=3, bias=0),
    ]
    assert_exact(layers, clients(layers, (7, 12)), batch=4)


def test_the_number_of_threads_changes_no_bit() -> None:
    layers, before = chain((50, 33, 7)), torch.get_num_threads()
    people, results = clients(layers, (40, 10, 25, 31, 8), epochs=2), []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        try:
            results.append(train(layers, people, batch=16))
        finally:
            torch.set_num_threads(before)
    assert all(torch.equal(results[0], other) for other in results[1:])


@pytest.mark.parametrize("poison", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("inside", ["features", "start"])
def test_poison_shows_as_torch_shows_it_and_stays_with_its_client(poison: float, inside: str) -> None:
    layers = chain((20, 9, 3))
    people = clients(layers, (7, 12, 5))
    healthy = train(layers, people, batch=4)
    getattr(people[1], inside).view(-1)[23] = poison
    updates = train(layers, people, batch=4)
    assert updates is not None and healthy is not None
    assert torch.equal(updates[[0, 2]], healthy[[0, 2]])
    assert torch.equal(updates[1].isfinite(), exact_update(layers, people[1], batch=4, weight_decay=0).isfinite())
    assert not updates[1].isfinite().all()


@pytest.mark.parametrize("label", [-100, -1, 3, 2**40])
def test_labels_of_no_class_are_left_to_torch(label: int) -> None:
    layers = chain((20, 9, 3))
    people = clients(layers, (7, 12, 5))
    people[1].labels[11] = label
    assert train(layers, people, batch=4) is None


@pytest.mark.parametrize("row", [-1, 12])
def test_rows_that_do_not_exist_are_left_to_torch(row: int) -> None:
    layers = chain((20, 9, 3))
    people = clients(layers, (7, 12, 5))
    people[1].orders[0][3] = row
    assert train(layers, people, batch=4) is None


@pytest.mark.parametrize(
    "changed",
    [
        {"features": torch.randn(12, 20, dtype=torch.float64)},
        {"features": torch.randn(20, 12).T},
        {"features": torch.randn(12, 19)},
        {"features": torch.randn(11, 20)},
        {"start": torch.randn(219, dtype=torch.float64)},
        {"start": torch.randn(2 * 219)[::2]},
        {"labels": torch.zeros(24, dtype=torch.int64)[::2]},
        {"orders": [torch.arange(11)]},
        {"orders": [torch.arange(12, dtype=torch.int32)]},
        {"orders": [torch.arange(12)] * 2},
    ],
)
def test_tensors_that_the_kernel_cannot_read_are_left_to_torch(changed: dict[str, object]) -> None:
    layers = chain((20, 9, 3))
    first, other = clients(layers, (7, 12))
    assert train(layers, [first, other], batch=4) is not None
    assert train(layers, [first, DenseClient(**{**other.__dict__, **changed})], batch=4) is None  # type: ignore[arg-type]


@pytest.mark.parametrize("kernels", ["absent", "without memory"])
def test_without_a_kernel_or_memory_torch_does_it(monkeypatch: pytest.MonkeyPatch, kernels: str) -> None:
    layers = chain((20, 9, 3))
    if kernels == "absent":
        monkeypatch.setattr(dense_clients, "library", lambda: None)
    else:
        monkeypatch.setattr(library(), "dense_clients", lambda *_: 1)
    assert train(layers, clients(layers, (7, 12)), batch=4) is None
