"""The contract of a partitioner: every row has one owner, and the same coins give the same owners."""

from __future__ import annotations

import numpy as np

from sordino.data.partition import PARTITIONERS, Partition
from sordino.settings import member
from sordino.testing.broken import demand
from sordino.testing.tables import Table

ROWS, CLASSES, CLIENTS = 300, 6, 3


def check_the_owners(table: Table) -> None:
    """Every row goes to exactly one client, and every client has one."""
    partition = _split(table)
    demand(sorted(partition.indices.tolist()) == list(range(ROWS)), "Some rows have no owner, or more than one.")
    demand(partition.clients == CLIENTS, f"{CLIENTS} clients were asked for, but got {partition.clients}.")
    demand(int(partition.sizes.min()) > 0, f"Some client has no rows: sizes are {partition.sizes.tolist()}.")


def check_the_coins(table: Table) -> None:
    """The same generator gives the same partition, so that a run can be resumed."""
    one, other = _split(table), _split(table)
    same = np.array_equal(one.indices, other.indices) and np.array_equal(one.offsets, other.offsets)
    demand(same, "The same generator gave another partition the second time.")


PARTITIONER_CHECKS = (check_the_owners, check_the_coins)


def _split(table: Table) -> Partition:
    partitioner = member(PARTITIONERS, table, where="data.partition")
    column = np.repeat(np.arange(CLIENTS), ROWS // CLIENTS)
    found: Partition = partitioner.split(
        np.arange(ROWS) % CLASSES, column, clients=CLIENTS, rng=np.random.default_rng(1)
    )
    return found
