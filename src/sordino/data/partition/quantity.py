"""Quantity skew."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.core import SordinoError
from sordino.data.partition import PARTITIONERS, Labels, Partition, check_room


@PARTITIONERS.register("quantity")
@dataclass(frozen=True, kw_only=True)
class Quantity:
    """Shares of given ratios, such as 45 : 9 : 1, drawn at random; with more clients than ratios the list repeats."""

    ratios: tuple[float, ...] = (45, 9, 1)

    def __post_init__(self) -> None:
        if not self.ratios or not all(math.isfinite(ratio) and ratio > 0 for ratio in self.ratios):
            raise SordinoError(f"ratios must be numbers above zero, not {list(self.ratios)}.")

    def split(
        self, labels: Labels, column: NDArray[Any] | None, *, clients: int, rng: np.random.Generator
    ) -> Partition:
        check_room(labels, clients)
        if clients % len(self.ratios):
            raise SordinoError(
                f"{len(self.ratios)} ratios cannot be repeated over {clients} clients; "
                "give a list whose length divides the number of clients."
            )
        ratios = np.tile(np.asarray(self.ratios, np.float64), clients // len(self.ratios))
        cuts = np.rint(np.cumsum(ratios) / ratios.sum() * len(labels)).astype(np.int64)
        owners = np.empty(len(labels), np.int64)
        owners[rng.permutation(len(labels))] = np.repeat(np.arange(clients), np.diff(cuts, prepend=0))
        return Partition.from_owners(owners, clients=clients)
