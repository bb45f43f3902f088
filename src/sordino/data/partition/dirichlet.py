"""Label skew by a Dirichlet draw."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.core import SordinoError
from sordino.data.partition import PARTITIONERS, Labels, Partition, Rows, check_room


@PARTITIONERS.register("dirichlet")
@dataclass(frozen=True, kw_only=True)
class Dirichlet:
    """Each class is shared out in proportions drawn from Dirichlet(alpha): the smaller alpha, the more skewed.

    Clients left with fewer than `min_examples` receive the missing ones from those that hold the most.
    """

    alpha: float = 0.5
    min_examples: int = 1

    def __post_init__(self) -> None:
        if not (math.isfinite(self.alpha) and self.alpha > 0):
            raise SordinoError(f"alpha must be a number above zero, not {self.alpha}.")
        if self.min_examples < 1:
            raise SordinoError(f"min_examples must be at least 1, not {self.min_examples}.")

    def split(
        self, labels: Labels, column: NDArray[Any] | None, *, clients: int, rng: np.random.Generator
    ) -> Partition:
        check_room(labels, clients, self.min_examples)
        owners = np.empty(len(labels), np.int64)
        for label in np.unique(labels):
            rows = rng.permutation(np.flatnonzero(labels == label))
            cuts = np.cumsum(rng.dirichlet(np.full(clients, self.alpha))) * len(rows)
            owners[rows] = np.searchsorted(cuts, np.arange(len(rows)) + 0.5).clip(max=clients - 1)
        _fill_up(owners, clients, self.min_examples, rng)
        return Partition.from_owners(owners, clients=clients)


def _fill_up(owners: Rows, clients: int, least: int, rng: np.random.Generator) -> None:
    """Move rows from the clients that hold the most until every client holds `least`."""
    sizes = np.bincount(owners, minlength=clients)
    missing = np.maximum(least - sizes, 0)
    shuffled = rng.permutation(len(owners))
    by_owner = shuffled[np.argsort(owners[shuffled], kind="stable")]
    rank_in_client = np.arange(len(owners)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    highest_ranks = np.argsort(-rank_in_client, kind="stable")[: missing.sum()]
    owners[by_owner[highest_ranks]] = np.repeat(np.arange(clients), missing)
