"""Torch's compute threads, for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from sordino.cores import free_cores


def threads_of(workers: int) -> int | None:
    """Compute threads of whoever has all workers for itself: as many as were asked for and there are cores; None for no say.

    Args:
        workers: [engine] workers, where 0 means one per core.

    Example:
        2 where 64 workers were asked for on two cores, on which 64 threads would wait for each other
    """
    return min(workers, free_cores()) if workers else None


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
