"""Everyone alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.data.partition import PARTITIONERS, Labels, Partition, check_room, deal


@PARTITIONERS.register("iid")
@dataclass(frozen=True, kw_only=True)
class Iid:
    """Equal shares drawn at random."""

    def split(
        self, labels: Labels, column: NDArray[Any] | None, *, clients: int, rng: np.random.Generator
    ) -> Partition:
        check_room(labels, clients)
        owners = np.empty(len(labels), np.int64)
        deal(np.arange(len(labels)), np.arange(clients), owners, rng)
        return Partition.from_owners(owners, clients=clients)
