"""Lengths and sums by kernels: the bits of torch's sums, and lengths that no row can shorten."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from sordino.core import Private
from sordino.kernels.bounded_sums import add_products, suits_rows, sums_of_squares
from sordino.kernels.native import library
from sordino.privacy.clipping import Clip, bound_updates, read_bounded, sum_bounded

pytestmark = pytest.mark.skipif(library() is None, reason="no compiled kernels on this machine")
SIZES = (1, 7, 16, 33, 4095, 4097, 70_001)


def rows_of(size: int, count: int = 5) -> list[Tensor]:
    draw = torch.Generator().manual_seed(size)
    return [torch.randn(size, generator=draw) * 10.0 ** (3 * k - 6) for k in range(count)]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("threads", [1, 2])
def test_sums_have_the_bits_of_torch(size: int, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sordino.kernels.bounded_sums.threads", lambda numbers: threads)
    rows, factors = rows_of(size), [1.0, 0.3, 0.7, 1e-30, 0.1]
    factors = [float(torch.tensor(one)) for one in factors]
    found, truth = torch.ones(size), torch.ones(size)
    add_products(found, rows, factors)
    for row, factor in zip(rows, factors, strict=True):
        truth += row * factor
    assert torch.equal(found, truth)


@pytest.mark.parametrize("size", SIZES)
def test_squares_are_summed_in_double(size: int) -> None:
    rows = rows_of(size)
    truths = [math.fsum(float(x) ** 2 for x in row.tolist()) for row in rows]
    assert sums_of_squares(rows) == pytest.approx(truths, rel=1e-13, abs=0)
    assert [sums_of_squares([row])[0] for row in rows] == sums_of_squares(rows)


@pytest.mark.parametrize(
    ("row", "length"),
    [
        pytest.param(torch.full((50_000,), 1e-25), 1e-25 * math.sqrt(50_000), id="tiny"),
        pytest.param(torch.full((50_000,), 1e38), 1e38 * math.sqrt(50_000), id="huge"),
        pytest.param(torch.full((50_000,), 0.1), 0.1 * math.sqrt(50_000), id="equal"),
    ],
)
def test_lengths_neither_vanish_nor_overflow(row: Tensor, length: float) -> None:
    assert math.sqrt(sums_of_squares([row])[0]) == pytest.approx(length, rel=1e-6)


@pytest.mark.parametrize("broken", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("place", [0, 4_096, 9_999])
def test_a_row_with_a_broken_number_adds_nothing(broken: float, place: int) -> None:
    good, bad = torch.full((10_000,), 1e-3), torch.zeros(10_000)
    bad[place] = broken
    clip = Clip(bound=1.0, norm="l2")
    bounded = bound_updates([Private(good), Private(bad)], clip, like=torch.zeros(10_000))
    total = sum_bounded(bounded, clip, like=torch.zeros(10_000))
    assert torch.equal(read_bounded(total), good)
    assert total.zeroed == 1


def test_other_rows_are_left_to_torch() -> None:
    whole = torch.zeros(8)
    assert suits_rows([whole, whole])
    for other in (whole.double(), torch.zeros(16)[::2], torch.zeros(9), torch.zeros(8, requires_grad=True)):
        assert not suits_rows([whole, other])
    assert not suits_rows([])


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_kernels_and_torch_bound_alike(norm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def total() -> Tensor:
        clip = Clip(bound=1.0, norm=norm)  # type: ignore[arg-type]
        rows = [row * 1e3 for row in rows_of(10_001)]
        return read_bounded(
            sum_bounded(bound_updates([Private(row) for row in rows], clip, like=rows[0]), clip, like=rows[0])
        )

    compiled = total()
    monkeypatch.setattr("sordino.privacy.clipping.suits_rows", lambda rows: False)
    assert torch.allclose(compiled, total(), rtol=1e-6, atol=1e-9)
