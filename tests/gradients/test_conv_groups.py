"""Gradients of convolutions with every example as a group of its own, against one example at a time in double precision."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from sordino.gradients.layers import conv
from sordino.gradients.layers.booking import Capture, Request
from sordino.gradients.layers.conv_groups import BLOCK, rows_by_groups, suits

WEIGHT = Request(wanted=frozenset({"weight"}), norm="l2")
LAYERS = {
    "square": (nn.Conv2d(16, 32, 3, padding=1, bias=False), (16, 16)),
    "no padding": (nn.Conv2d(16, 16, 5), (20, 21)),
    "oblong": (nn.Conv2d(24, 40, (3, 5), padding=(2, 1)), (14, 22)),
}


def case(name, batch):
    layer, size = LAYERS[name]
    inputs = torch.randn(batch, layer.in_channels, *size).contiguous(memory_format=torch.channels_last)
    return layer, inputs, torch.randn_like(layer(inputs)).detach()


def alone(layer, inputs, grads):
    """One example's gradient by autograd in double precision."""
    double = nn.Conv2d(layer.in_channels, layer.out_channels, layer.kernel_size, layer.stride, layer.padding).double()
    double(inputs.double()[None]).backward(grads.double()[None])
    return double.weight.grad


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("batch", [1, BLOCK, 2 * BLOCK + 3])
def test_every_row_is_the_example_s_own_gradient(name, batch):
    layer, inputs, grads = case(name, batch)
    assert suits(layer, inputs, grads)
    rows = rows_by_groups(layer, inputs, grads)
    assert rows.shape == (batch, *layer.weight.shape)
    for example in {0, batch // 2, batch - 1}:
        wanted = alone(layer, inputs[example], grads[example])
        torch.testing.assert_close(rows[example].double(), wanted, rtol=1e-4, atol=1e-4 * float(wanted.abs().max()))


def test_norms_and_sums_are_of_these_rows():
    layer, inputs, grads = case("square", 20)
    booking = conv.book_by_torch(Capture(layer, inputs, 0), grads, WEIGHT)
    rows, factors = rows_by_groups(layer, inputs, grads), torch.rand(20)
    assert torch.equal(booking.rows(), rows.flatten(1))
    torch.testing.assert_close(booking.norms.double(), rows.double().flatten(1).norm(dim=1), rtol=1e-5, atol=0)
    total = torch.zeros_like(layer.weight)
    with torch.no_grad():
        booking.add_weighted(factors, total)
    torch.testing.assert_close(total, torch.einsum("b,boiyx->oiyx", factors, rows), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, 1e38])
def test_an_example_that_is_not_finite_changes_no_other_row(bad):
    layer, inputs, grads = case("oblong", BLOCK)
    whole = rows_by_groups(layer, inputs, grads)
    inputs[5] = bad
    spoilt = rows_by_groups(layer, inputs, grads)
    others = [example for example in range(BLOCK) if example != 5]
    assert torch.equal(whole[others], spoilt[others])
    assert not torch.equal(whole[5], spoilt[5])


@pytest.mark.parametrize(
    ("layer", "size"),
    [
        (nn.Conv2d(16, 16, 3, stride=2, padding=1), 64),
        (nn.Conv2d(16, 16, 3, padding=2, dilation=2), 32),
        (nn.Conv2d(16, 16, 3, padding=1, groups=2), 32),
        (nn.Conv2d(16, 16, 1), 32),
        (nn.Conv2d(3, 16, 3, padding=1), 32),
        (nn.Conv2d(16, 16, 3, padding=1), 15),
        (nn.Conv2d(16, 16, 3, padding="same"), 32),
        (nn.Conv2d(16, 16, 3, padding=1, padding_mode="reflect"), 32),
        (nn.Conv2d(16, 16, 3, padding=1).double(), 32),
    ],
)
def test_other_kinds_are_left_to_patches(layer, size):
    inputs = torch.randn(2, layer.in_channels, size, size, dtype=layer.weight.dtype)
    assert not suits(layer, inputs, layer(inputs).detach())
    assert not suits(nn.Linear(4, 4), inputs, inputs)
