"""Single parts for people with a program of their own: dealing rows out to clients."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sordino.core import SordinoError
from sordino.data.partition import PARTITIONERS
from sordino.settings import member


def partition(
    labels: ArrayLike, *, clients: int, name: str = "iid", seed: int = 0, **settings: Any
) -> list[NDArray[np.int64]]:
    """The rows of each client, dealt out by a partitioner of ours or of your own.

    >>> rows = sordino.partition(labels, clients=10, name="dirichlet", alpha=0.5)
    """
    classes = np.asarray(labels)
    if classes.ndim != 1 or classes.dtype.kind not in "ui":
        raise SordinoError(
            f"partition takes one class number for each row, but got {classes.dtype} of shape {classes.shape}; number the classes."
        )
    built = member(PARTITIONERS, {"name": name, **settings}, where="partition")
    found = built.split(classes.astype(np.int64), None, clients=clients, rng=np.random.default_rng(seed))
    return [np.asarray(found.of(client)) for client in range(clients)]
