"""Lengths and weighted sums of many long rows, each read once."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch._C._functorch import is_functorch_wrapped_tensor

from sordino.kernels.native import addresses, library, reachable, threads


def suits_rows(rows: Sequence[Tensor]) -> bool:
    """Whether kernels can read these: one or more rows of single precision, alike in shape and each in one piece."""
    if not rows or not reachable(rows[0]):
        return False
    dtype, device, shape, wrapped = rows[0].dtype, rows[0].device, rows[0].shape, is_functorch_wrapped_tensor
    return all(
        row.dtype == dtype
        and row.device == device
        and row.shape == shape
        and row.is_contiguous()
        and not row.requires_grad
        and not wrapped(row)
        for row in rows
    )


def sums_of_squares(rows: Sequence[Tensor]) -> list[float]:
    """Of each row, in double precision; the same bits for any number of threads and rows."""
    kernels, table, sums = library(), _table(rows), torch.empty(len(rows), dtype=torch.float64)
    assert kernels is not None
    kernels.sums_of_squares(*addresses(table, sums), len(rows), rows[0].numel(), _threads(rows))
    found: list[float] = sums.tolist()
    return found


def add_products(total: Tensor, rows: Sequence[Tensor], factors: Sequence[float]) -> None:
    """Add each row times its factor to `total`, one after the other: the bits that torch gives, product by product."""
    kernels, table, weights = library(), _table(rows), torch.tensor(factors, dtype=torch.float32)
    assert kernels is not None
    kernels.add_products(*addresses(total, table, weights), len(rows), total.numel(), _threads(rows))


def _threads(rows: Sequence[Tensor]) -> int:
    return threads(len(rows) * rows[0].numel())


def _table(rows: Sequence[Tensor]) -> Tensor:
    return torch.tensor([row.data_ptr() for row in rows], dtype=torch.int64)
