"""Disjoint groups of classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.core import SordinoError
from sordino.data.partition import PARTITIONERS, Labels, Partition, check_room, deal


@PARTITIONERS.register("groups")
@dataclass(frozen=True, kw_only=True)
class Groups:
    """Classes in disjoint groups, each shared evenly by its own clients.

    Groups are given as sizes of runs of classes, such as (3, 3, 4), or as lists of classes. Client i belongs to group
    i mod the number of groups.
    """

    groups: tuple[int, ...] | tuple[tuple[int, ...], ...] = (3, 3, 4)

    def __post_init__(self) -> None:
        listed = [label for group in self.class_lists() for label in group]
        if not listed or not all(self.class_lists()) or len(set(listed)) < len(listed):
            raise SordinoError(
                f"groups must be sizes above zero or lists without a class in common, not {self.groups}."
            )

    def class_lists(self) -> list[list[int]]:
        """The classes of each group."""
        lists: list[list[int]] = []
        next_class = 0
        for group in self.groups:
            lists.append(list(range(next_class, next_class + group)) if isinstance(group, int) else list(group))
            next_class += len(lists[-1])
        return lists

    def split(
        self, labels: Labels, column: NDArray[Any] | None, *, clients: int, rng: np.random.Generator
    ) -> Partition:
        check_room(labels, clients)
        groups = self.class_lists()
        strays = np.setdiff1d(labels, [label for group in groups for label in group])
        if len(strays):
            raise SordinoError(
                f"Class {strays[0]} is in none of the groups {list(self.groups)}; the groups must cover every class."
            )
        if clients < len(groups):
            raise SordinoError(f"{len(groups)} groups need at least as many clients, not {clients}.")
        owners = np.empty(len(labels), np.int64)
        for number, group in enumerate(groups):
            deal(np.flatnonzero(np.isin(labels, group)), np.arange(number, clients, len(groups)), owners, rng)
        return Partition.from_owners(owners, clients=clients)
