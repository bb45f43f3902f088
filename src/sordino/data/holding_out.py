"""Rows that each client keeps from training, so that the model can be evaluated on them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sordino.core import SordinoError
from sordino.data.partition import Partition, Rows


@dataclass(frozen=True, kw_only=True)
class OwnSplit:
    """Every client's own rows in three: what it trains on, what settings may be chosen on, and what it is tested on."""

    train: Partition
    validation: Partition | None
    test: Partition | None


def split_own_rows(partition: Partition, rng: np.random.Generator, *, validation: float, test: float) -> OwnSplit:
    """Shares of every client's rows drawn by lot, each of one row at least where it is above zero."""
    least, sizes = 1 + bool(validation) + bool(test), partition.sizes
    if sizes.min() < least:
        client = int(sizes.argmin())
        raise SordinoError(
            f"[data] client_split needs {least} rows of every client, one for each part, but client {client} holds "
            f"{int(sizes[client])}; use fewer clients, or a partition with min_examples = {least}."
        )
    rest, parts = partition, []
    for share, left in ((test, 1.0), (validation, 1.0 - test)):
        rest, part = _drawn_out(rest, share / left, rng) if share else (rest, None)
        parts.append(part)
    return OwnSplit(train=rest, test=parts[0], validation=parts[1])


def hold_out(partition: Partition, fraction: float, rng: np.random.Generator) -> tuple[Partition, Partition]:
    """Every client's rows in two: those it trains on, in their order, and a share drawn by lot, of one row at least."""
    sizes = partition.sizes
    if sizes.min() < 2:
        client = int(sizes.argmin())
        raise SordinoError(
            f"Charged evaluation holds out a row of every client and leaves it one to train on, but client {client} holds "
            f"{int(sizes[client])}; use fewer clients, a partition with min_examples = 2, or another [data] test."
        )
    return _drawn_out(partition, fraction, rng)


def _drawn_out(partition: Partition, fraction: float, rng: np.random.Generator) -> tuple[Partition, Partition]:
    sizes = partition.sizes
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
