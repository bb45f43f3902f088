"""Test examples for each client in the client's own mix of labels."""

from __future__ import annotations

import numpy as np

from sordino.core import SordinoError
from sordino.data.partition import Labels, Partition


def matching_test(
    partition: Partition, train_labels: Labels, test_labels: Labels, rng: np.random.Generator, per_client: int
) -> Partition:
    """Draw `per_client` rows of the public test split for each client, in the proportions of its training labels.

    Each label's count is its exact share, rounded down or up at random. Clients may share test rows; within a client a
    row comes twice only where the test split has too few of its label.
    """
    if per_client < 1:
        raise SordinoError(f"per_client must be at least 1, not {per_client}.")
    wanted = _wanted_labels(partition, train_labels, rng, per_client)
    per_label = np.bincount(test_labels, minlength=int(wanted.max()) + 1)
    missing = np.intersect1d(np.flatnonzero(per_label == 0), wanted)
    if len(missing):
        raise SordinoError(
            f"Clients hold class {missing[0]} but the test split has none of it; raise test_fraction or add examples."
        )
    by_label = rng.permutation(len(test_labels))
    by_label = by_label[np.argsort(test_labels[by_label], kind="stable")]
    first_of_label = np.cumsum(per_label) - per_label
    places = first_of_label[wanted] + _turns(wanted, rng) % per_label[wanted]
    return Partition(by_label[places].ravel(), np.arange(partition.clients + 1) * per_client)


def _wanted_labels(partition: Partition, labels: Labels, rng: np.random.Generator, per_client: int) -> Labels:
    """clients x per_client labels: evenly spaced places, from a random start, in each client's sorted labels."""
    held = labels[partition.indices]
    sorted_labels = held[np.lexsort((held, partition.owners()))]
    spacing = (rng.random((partition.clients, 1)) + np.arange(per_client)) / per_client
    places = np.minimum((spacing * partition.sizes[:, None]).astype(np.int64), partition.sizes[:, None] - 1)
    return sorted_labels[partition.offsets[:-1, None] + places]


def _turns(wanted: Labels, rng: np.random.Generator) -> Labels:
    """Consecutive numbers along each client's run of one label, from a random start for each run."""
    clients, per_client = wanted.shape
    starts_run = np.ones_like(wanted, dtype=bool)
    starts_run[:, 1:] = wanted[:, 1:] != wanted[:, :-1]
    run = np.cumsum(starts_run.ravel()) - 1
    run_place = np.flatnonzero(starts_run)
    start = rng.integers(0, 2**31, size=len(run_place))
    turns: Labels = start[run] + np.arange(clients * per_client) - run_place[run]
    return turns.reshape(clients, per_client)
