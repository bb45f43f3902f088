"""Which test rows stand for each client: as many as were asked for, in the client's own mix of labels."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sordino.data.matching import matching_test
from sordino.data.partition import Labels, Partition
from sordino.experiment import Experiment
from sordino.methods import Method

USUAL_ROWS = 200

Matched = tuple[Partition, Partition | None]
"""Test rows of the clients that train, and of those that join when training is over."""


def rows_per_client(experiment: Experiment, method: Method) -> int:
    """Test rows that stand for each client; none where nobody asked, or where a secure run must not show figures of clients."""
    asked = experiment.data.client_test_rows
    rows = (USUAL_ROWS if method.personalised else 0) if asked is None else asked
    return rows if experiment.privacy.noise_source == "seeded" else 0


def match_test_rows(
    experiment: Experiment,
    method: Method,
    roster: Partition,
    newcomers: Partition | None,
    *,
    train_labels: Callable[[], Labels],
    test_labels: Callable[[], Labels],
) -> Matched | None:
    """Test rows for every client; None where nobody asked for such figures, or where a secure run must not show them.

    Labels are read only where they are needed.
    """
    rows = rows_per_client(experiment, method)
    if not rows:
        return None

    def matched(partition: Partition, stream: int) -> Partition:
        rng = np.random.default_rng([experiment.seed, stream])
        return matching_test(partition, train_labels(), test_labels(), rng, rows)

    return matched(roster, 2), None if newcomers is None else matched(newcomers, 3)
