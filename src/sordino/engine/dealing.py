"""A data set in one process, and who holds which rows of it: for simulations, and for plans that need sizes alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
import torch

from sordino.core import Private, SordinoError
from sordino.data.client_names import group_names
from sordino.data.evaluation_rows import Charged
from sordino.data.examples import Examples
from sordino.data.holding_out import OwnSplit, hold_out, split_own_rows
from sordino.data.partition import Partition
from sordino.data.public import digest
from sordino.data.raw import Array
from sordino.data.source import Source, labels_and_columns, load, test_labels
from sordino.engine.client_names import client_names
from sordino.engine.client_test_rows import Matched, match_test_rows
from sordino.engine.resolved import Resolved
from sordino.engine.roster import Roster


@dataclass(frozen=True, kw_only=True)
class Federated:
    """A data set and who holds which rows of it."""

    source: Source
    partition: Partition
    newcomers: Partition | None = None
    """Clients that join when training is over, numbered on from the others."""
    held_out: Partition | None = None
    """Rows that clients keep from training, where evaluation is charged."""
    own_split: OwnSplit | None = None
    """Every client's own rows in three, where a simulation asks for that; `partition` is what they train on."""
    names: tuple[str, ...] = ()
    """What the clients that train are called, if they have names."""

    @property
    def roster(self) -> Roster:
        """What the server's side may know of the clients."""
        held_out = () if self.held_out is None else tuple(int(size) for size in self.held_out.sizes)
        return Roster(sizes=tuple(int(size) for size in self.partition.sizes), held_out=held_out, names=self.names)

    @property
    def sizes(self) -> list[int]:
        return [int(size) for size in self.partition.sizes]

    def digest(self) -> str:
        """The same for the same rows dealt out in the same way, and for no others. It is as private as the rows are."""
        found = blake2b(digest_size=16)
        for part in (self.source.train, self.source.test):
            found.update(b"" if part is None else digest(part).encode())
        kept = () if self.own_split is None else (self.own_split.validation, self.own_split.test)
        for dealt in (self.partition, self.newcomers, self.held_out, *kept):
            found.update(b"" if dealt is None else dealt.indices.tobytes() + dealt.sizes.tobytes())
        return found.hexdigest()

    def client(self, client: int) -> Private[Examples]:
        if self.newcomers is not None and client >= self.partition.clients:
            rows = self.newcomers.of(client - self.partition.clients)
        else:
            rows = self.partition.of(client)
        return Private(self.source.train.take(torch.from_numpy(rows)))

    def held_out_of(self, client: int) -> Private[Examples]:
        """The rows on which this client evaluates a model."""
        assert self.held_out is not None
        return self.own_rows(client, self.held_out)

    def own_rows(self, client: int, of: Partition) -> Private[Examples]:
        """The rows of this client in a part of its own split."""
        return Private(self.source.train.take(torch.from_numpy(of.of(client))))

    def facts(self) -> dict[str, Any]:
        """What a run must find again when it goes on, besides what it can look up here."""
        return {}

    def close(self) -> None:
        """Nothing is held open where the data lie in this process."""

    def match_test_rows(self, resolved: Resolved) -> Matched | None:
        """Test rows for every client, where figures of single clients were asked for and test rows are public."""
        tested = self.source.test
        if tested is None:
            return None
        return match_test_rows(
            resolved.experiment,
            resolved.method,
            self.partition,
            self.newcomers,
            train_labels=lambda: self.source.groups(self.source.train),
            test_labels=lambda: self.source.groups(tested),
        )


def load_source(resolved: Resolved) -> Source:
    """The experiment's data set, with the rows that it is tested on."""
    return load(resolved.source, seed=resolved.experiment.seed, test=resolved.test_rows)


def federate(resolved: Resolved) -> Federated:
    """Load the data and deal them out to clients, or leave them in one place."""
    source = load_source(resolved)
    partition, newcomers = _dealt_out(resolved, source.groups(source.train), source.columns)
    own_split = _own_split(resolved, partition)
    partition, held_out = _held_out(resolved, partition)
    groups = {column: group_names(values) for column, values in source.columns.items()}
    return Federated(
        source=source,
        partition=partition,
        newcomers=newcomers,
        held_out=held_out,
        own_split=own_split,
        names=client_names(resolved, groups, clients=partition.clients),
    )


def client_sizes(resolved: Resolved) -> list[int]:
    """How many rows each client would train on, learnt without reading an example's inputs; test rows are checked on the way."""
    experiment, rows = resolved.experiment, resolved.test_rows
    labels, columns = labels_and_columns(resolved.source, seed=experiment.seed, test=rows)
    partition, newcomers = _dealt_out(resolved, labels, columns)
    partition, _ = _held_out(resolved, partition)
    tested = test_labels(resolved.source, seed=experiment.seed, test=rows)
    if tested is not None:
        match_test_rows(
            experiment,
            resolved.method,
            partition,
            newcomers,
            train_labels=lambda: labels,
            test_labels=lambda: tested,
        )
    return [int(size) for size in partition.sizes]


def client_labels(resolved: Resolved, *, classes: int) -> tuple[Array, tuple[str, ...]]:
    """How many rows of each class each client would train on, learnt without reading inputs, and what clients are called.

    Exact counts (clients x classes) are as private as the rows: for simulations alone.
    """
    labels, columns = labels_and_columns(resolved.source, seed=resolved.experiment.seed, test=resolved.test_rows)
    partition, _ = _held_out(resolved, _dealt_out(resolved, labels, columns)[0])
    counts = [np.bincount(labels[partition.of(client)], minlength=classes) for client in range(partition.clients)]
    groups = {column: group_names(values) for column, values in columns.items()}
    return np.stack(counts), client_names(resolved, groups, clients=partition.clients)


def client_count(resolved: Resolved, groups: Mapping[str, int]) -> int:
    """How many clients train: as many as asked for, as the client column has values, or one place for all."""
    if resolved.method.pooled:
        return 1
    data = resolved.experiment.data
    column = resolved.source.client_column or ""
    if data.partition == {"name": "column"} and column in groups:
        if data.clients not in (1, groups[column]):
            raise SordinoError(
                f"[data] clients = {data.clients}, but the client column {column!r} holds {groups[column]} different values, and each is "
                'a client; leave clients out, or set partition = { name = "column", merge = true } to share out fewer.'
            )
        return groups[column] - data.late_clients
    return data.clients - data.late_clients


def _own_split(resolved: Resolved, partition: Partition) -> OwnSplit | None:
    """Clients' own rows in three, where they were asked for."""
    asked = resolved.experiment.data.client_split
    if asked is None:
        return None
    rng = np.random.default_rng([resolved.experiment.seed, 5])
    return split_own_rows(partition, rng, validation=asked.validation, test=asked.test)


def _held_out(resolved: Resolved, partition: Partition) -> tuple[Partition, Partition | None]:
    """What clients train on, and what they hold out where evaluation is charged."""
    rows = resolved.test_rows
    if not isinstance(rows, Charged):
        split = _own_split(resolved, partition)
        return partition if split is None else split.train, None
    return hold_out(partition, rows.fraction, np.random.default_rng([resolved.experiment.seed, 4]))


def _dealt_out(resolved: Resolved, labels: Array, columns: Mapping[str, Array]) -> tuple[Partition, Partition | None]:
    """The clients that train, and those that join afterwards."""
    clients = client_count(resolved, {name: len(np.unique(values)) for name, values in columns.items()})
    rng = np.random.default_rng([resolved.experiment.seed, 1])
    column = columns.get(resolved.source.client_column or "")
    late = 0 if resolved.method.pooled else resolved.experiment.data.late_clients
    dealt = resolved.partitioner.split(labels, column, clients=clients + late, rng=rng)
    roster, newcomers = dealt.split_at(clients)
    return roster, newcomers if late else None
