"""Rows that each client keeps from training, so that the model can be evaluated on them."""

from __future__ import annotations

import numpy as np

from sordino.core import SordinoError
from sordino.data.partition import Partition, Rows


def hold_out(partition: Partition, fraction: float, rng: np.random.Generator) -> tuple[Partition, Partition]:
    """Every client's rows in two: those it trains on, in their order, and a share drawn by lot, of one row at least."""
    sizes = partition.sizes
    if sizes.min() < 2:
        client = int(sizes.argmin())
        raise SordinoError(
            f"Charged evaluation holds out a row of every client and leaves it one to train on, but client {client} holds "
            f"{int(sizes[client])}; use fewer clients, a partition with min_examples = 2, or another [data] test."
        )
    held = held_out_sizes(sizes, fraction)
    by_lot = np.lexsort((rng.random(len(partition.indices)), partition.owners()))
    place = np.arange(len(by_lot)) - np.repeat(partition.offsets[:-1], sizes)
    out = np.zeros(len(by_lot), dtype=bool)
    out[by_lot[place < np.repeat(held, sizes)]] = True
    return _of_sizes(partition.indices[~out], sizes - held), _of_sizes(partition.indices[out], held)


def held_out_sizes(sizes: Rows, fraction: float) -> Rows:
    """How many rows clients of these sizes hold out."""
    held: Rows = np.rint(fraction * sizes).astype(np.int64).clip(1, sizes - 1)
    return held


def _of_sizes(indices: Rows, sizes: Rows) -> Partition:
    return Partition(indices, np.concatenate([[0], np.cumsum(sizes)]))
