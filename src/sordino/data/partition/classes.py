"""A few classes each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.core import SordinoError
from sordino.data.partition import PARTITIONERS, Labels, Partition, Rows, check_room, deal


@PARTITIONERS.register("classes")
@dataclass(frozen=True, kw_only=True)
class Classes:
    """Each client holds `classes_per_client` classes, and each class goes to about as many clients as any other."""

    classes_per_client: int = 2

    def __post_init__(self) -> None:
        if self.classes_per_client < 1:
            raise SordinoError(f"classes_per_client must be at least 1, not {self.classes_per_client}.")

    def split(
        self, labels: Labels, column: NDArray[Any] | None, *, clients: int, rng: np.random.Generator
    ) -> Partition:
        check_room(labels, clients)
        present, number = np.unique(labels, return_inverse=True)
        each = self.classes_per_client
        if each > len(present) or clients * each < len(present):
            raise SordinoError(
                f"{clients} clients of {each} classes each do not fit {len(present)} classes; "
                f"classes_per_client must lie between {-(-len(present) // clients)} and {len(present)}."
            )
        hands = _hands(len(present), clients, each, rng)
        slots = np.argsort(hands.ravel(), kind="stable")
        holders = np.split(slots // each, np.cumsum(np.bincount(hands.ravel(), minlength=len(present)))[:-1])
        owners = np.empty(len(labels), np.int64)
        for label in range(len(present)):
            deal(np.flatnonzero(number == label), rng.permutation(holders[label]), owners, rng)
        return Partition.from_owners(owners, clients=clients)


def _hands(classes: int, clients: int, each: int, rng: np.random.Generator) -> Rows:
    """clients x each distinct classes, dealt from one shuffled deck of all classes after another."""
    dealt = np.empty(clients * each + classes, np.int64)
    count = 0
    while count < clients * each:
        deck = rng.permutation(classes)
        unfinished_hand = dealt[count - count % each : count]
        if len(unfinished_hand):
            held = np.isin(deck, unfinished_hand)
            deck = np.concatenate([deck[~held], deck[held]])
        dealt[count : count + classes] = deck
        count += classes
    return dealt[: clients * each].reshape(clients, each)
