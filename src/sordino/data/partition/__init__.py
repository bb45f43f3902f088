"""Who holds which examples: one partitioner per file, each giving every example to exactly one client."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sordino.core import SordinoError
from sordino.registry import Registry

Labels = NDArray[np.integer[Any]]
Rows = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Partition:
    """The rows of every client, end to end in one array: client i holds indices[offsets[i]:offsets[i + 1]]."""

    indices: Rows
    offsets: Rows

    @property
    def clients(self) -> int:
        return len(self.offsets) - 1

    @property
    def sizes(self) -> Rows:
        return np.diff(self.offsets)

    def of(self, client: int) -> Rows:
        """The rows that this client holds."""
        if not 0 <= client < self.clients:
            raise IndexError(f"client {client} is outside 0 to {self.clients - 1}")
        return self.indices[self.offsets[client] : self.offsets[client + 1]]

    def owners(self) -> Rows:
        """The client that holds each entry of `indices`."""
        return np.repeat(np.arange(self.clients), self.sizes)

    def split_at(self, clients: int) -> tuple[Partition, Partition]:
        """The first so many clients, and the others, numbered from zero again."""
        rows = self.offsets[clients]
        first = Partition(self.indices[:rows], self.offsets[: clients + 1])
        return first, Partition(self.indices[rows:], self.offsets[clients:] - rows)

    @staticmethod
    def from_owners(owners: Rows, *, clients: int) -> Partition:
        """The partition in which row i belongs to owners[i]; a client without a row is an error."""
        sizes = np.bincount(owners, minlength=clients)
        if (sizes == 0).any():
            raise SordinoError(
                f"{int((sizes == 0).sum())} of {clients} clients would hold no examples, "
                f"the first being client {int(sizes.argmin())}; "
                "use fewer clients or a milder skew."
            )
        return Partition(np.argsort(owners, kind="stable"), np.concatenate([[0], np.cumsum(sizes)]))


class Partitioner(Protocol):
    """Settings of one way to share out examples. The same generator state gives the same partition.

    Example:
        see `sordino.data.partition.iid.Iid`, or "Add a partitioner" in CONTRIBUTING.md
    """

    def split(
        self, labels: Labels, column: NDArray[Any] | None, *, clients: int, rng: np.random.Generator
    ) -> Partition:
        """Give every row to exactly one of `clients`, and at least one row to each.

        Args:
            labels: of all rows, as numbers.
            column: what [data.options] client_column holds for each row; None where no column is named.
            clients: how many there are to be.
            rng: the only source of chance.
        """
        ...


PARTITIONERS: Registry[type[Partitioner]] = Registry("partitioner", "sordino.data.partition", Partitioner)


def check_room(labels: Labels, clients: int, least: int = 1) -> None:
    """Refuse more clients than the examples can serve with `least` each."""
    if clients < 1:
        raise SordinoError(f"There must be at least one client, not {clients}.")
    if clients * least > len(labels):
        each = "one example" if least == 1 else f"{least} examples"
        raise SordinoError(
            f"{clients} clients cannot each hold {each} out of {len(labels)}; use fewer clients or more data."
        )


def deal(rows: Rows, holders: Rows, owners: Rows, rng: np.random.Generator) -> None:
    """Share `rows` evenly and at random among `holders`, writing into `owners`."""
    owners[rng.permutation(rows)] = np.resize(holders, len(rows))
