"""Clients as the data itself tells them apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.core import SordinoError
from sordino.data.partition import PARTITIONERS, Labels, Partition, check_room


@PARTITIONERS.register("column")
@dataclass(frozen=True, kw_only=True)
class Column:
    """One client for each value of the client column; with `merge`, several whole values to a client."""

    merge: bool = False

    def split(
        self, labels: Labels, column: NDArray[Any] | None, *, clients: int, rng: np.random.Generator
    ) -> Partition:
        if column is None or len(column) != len(labels):
            raise SordinoError(
                "Partitioning by column needs a value for every example; set client_column on a source that has one."
            )
        check_room(labels, clients)
        values, number = np.unique(column, return_inverse=True)
        if len(values) < clients or (len(values) > clients and not self.merge):
            advice = f"set clients to {len(values)}" + ("" if len(values) < clients else " or merge to true")
            raise SordinoError(
                f"The client column holds {len(values)} different values for {clients} clients; {advice}."
            )
        holder = rng.permutation(len(values)) % clients if self.merge else np.arange(clients)
        return Partition.from_owners(holder[number], clients=clients)
