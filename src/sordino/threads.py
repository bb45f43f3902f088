"""Torch's compute threads, for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def compute_threads(count: int | None) -> Iterator[None]:
    """Compute on so many threads inside, and on as many as before afterwards; None changes nothing.

    Example:
        >>> with compute_threads(1):
        ...     torch.get_num_threads()
        1
    """
    before = torch.get_num_threads()
    if count is not None:
        torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
