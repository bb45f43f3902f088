"""Rows that nobody holds, of an experiment's shapes: what a trial is done on, in place of private ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from sordino.data.examples import IDENTITY, Examples, Normalisation
from sordino.data.holding_out import OwnSplit
from sordino.data.partition import Partition
from sordino.data.settings import Kind, SourceFacts
from sordino.data.source import Source
from sordino.data.target import Target
from sordino.engine.dealing import Federated

BLOCK_BYTES, FEWEST, MOST = 1 << 23, 64, 4096
"""So many bytes of made-up rows are enough: clients share them, because speed does not depend on what is in a row."""


@dataclass(frozen=True, kw_only=True)
class Shapes:
    """What made-up rows are like."""

    shape: tuple[int, ...]
    classes: int
    kind: Kind
    vocabulary: int
    target: Target | None

    @staticmethod
    def of(facts: SourceFacts, target: Target | None) -> Shapes:
        return Shapes(
            shape=facts.shape,
            classes=facts.classes,
            kind=facts.kind,
            vocabulary=facts.vocabulary,
            target=target,
        )

    @property
    def row_bytes(self) -> int:
        """What a row takes as it is kept."""
        return math.prod(self.shape) * {"image": 1, "tabular": 4, "text": 8}[self.kind]

    @property
    def block(self) -> int:
        """Rows that are made up for training."""
        fitting = BLOCK_BYTES // max(1, self.row_bytes)
        return max(FEWEST, 4 * self.classes, min(MOST, fitting))

    def rows(self, count: int) -> Examples:
        """Made-up rows, of every class in turn; drawn from a generator of their own."""
        draw = torch.Generator().manual_seed(0)
        return Examples(inputs=self._inputs(count, draw), labels=self._labels(count), normalisation=self._normalisation)

    def _inputs(self, count: int, draw: torch.Generator) -> Tensor:
        size = (count, *self.shape)
        if self.kind == "text":
            return torch.randint(max(1, self.vocabulary), size, generator=draw)
        if self.kind == "image":
            return torch.randint(256, size, dtype=torch.uint8, generator=draw)
        return torch.rand(size, generator=draw)

    def _labels(self, count: int) -> Tensor:
        if self.target is not None:
            return torch.linspace(0, 1, count)
        return torch.arange(count) % self.classes

    @property
    def _normalisation(self) -> Normalisation:
        return Normalisation() if self.kind == "image" else IDENTITY

    def source(self, test_rows: int) -> Source:
        """A source that holds a block of rows to train on and so many to test on."""
        return Source(
            name="made-up rows",
            train=self.rows(self.block),
            test=self.rows(test_rows) if test_rows else None,
            classes=self.classes,
            shape=self.shape,
            kind=self.kind,
            visibility="public",
            class_names=tuple(map(str, range(self.classes))),
            vocabulary=self.vocabulary,
            target=self.target,
        )


@dataclass(frozen=True, kw_only=True)
class Roster:
    """How many rows each client trains on, and how many it keeps from that."""

    sizes: Sequence[int]
    held_out: float = 0.0
    """For each row that is trained on, how many are held out where evaluation is charged."""
    validation: float = 0.0
    test: float = 0.0
    late: int = 0

    def times_more(self, most_rows: int) -> float:
        """How many times more rows all clients have than where each has `most_rows` at most."""
        return sum(self.sizes) / sum(min(size, most_rows) for size in self.sizes)

    def federated(self, source: Source, *, most_rows: int) -> Federated:
        """Clients that hold rows of the source, `most_rows` at most; they share them, and none is private."""
        block, sizes = len(source.train), [min(size, most_rows) for size in self.sizes]
        own = [_share(sizes, share, block) for share in (self.validation, self.test)]
        trained = _dealt(sizes, block)
        mean = max(1, sum(sizes) // len(sizes))
        return Federated(
            source=source,
            partition=trained,
            newcomers=_dealt([mean] * self.late, block) if self.late else None,
            held_out=_share(sizes, self.held_out, block),
            own_split=OwnSplit(train=trained, validation=own[0], test=own[1]) if any(own) else None,
        )


def _share(sizes: Sequence[int], share: float, block: int) -> Partition | None:
    return _dealt([max(1, round(size * share)) for size in sizes], block) if share else None


def _dealt(sizes: Sequence[int], block: int) -> Partition:
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    return Partition(np.arange(offsets[-1]) % block, offsets)
