"""Shards of the examples sorted by label."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.core import SordinoError
from sordino.data.partition import PARTITIONERS, Labels, Partition, check_room


@PARTITIONERS.register("shards")
@dataclass(frozen=True, kw_only=True)
class Shards:
    """Examples sorted by label are cut into equal shards, and each client is dealt `shards_per_client` of them."""

    shards_per_client: int = 2

    def __post_init__(self) -> None:
        if self.shards_per_client < 1:
            raise SordinoError(f"shards_per_client must be at least 1, not {self.shards_per_client}.")

    def split(
        self, labels: Labels, column: NDArray[Any] | None, *, clients: int, rng: np.random.Generator
    ) -> Partition:
        check_room(labels, clients, self.shards_per_client)
        shards = clients * self.shards_per_client
        shuffled = rng.permutation(len(labels))
        by_label = shuffled[np.argsort(labels[shuffled], kind="stable")]
        holder_of_shard = rng.permutation(shards) // self.shards_per_client
        owners = np.empty(len(labels), np.int64)
        owners[by_label] = holder_of_shard[np.arange(len(labels)) * shards // len(labels)]
        return Partition.from_owners(owners, clients=clients)
