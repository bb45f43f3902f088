"""What the values of a client column call the clients."""

from __future__ import annotations

import numpy as np

from sordino.data.raw import Array


def group_names(values: Array) -> tuple[str, ...]:
    """The distinct values of a client column, in the order in which clients are numbered."""
    return tuple(map(str, np.unique(values)))
