"""What clients are called in tables and charts: by the client column where it tells them apart, else by number."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sordino.data.raw import Array


def group_names(values: Array) -> tuple[str, ...]:
    """The distinct values of a client column, in the order in which clients are numbered."""
    return tuple(map(str, np.unique(values)))


def client_names(
    partition: Mapping[str, Any], column: str | None, groups: Mapping[str, tuple[str, ...]], *, clients: int, late: int
) -> tuple[str, ...]:
    """One name per client that trains; numbers where a client is not one value of the client column."""
    named = groups.get(column or "", ())
    if partition == {"name": "column"} and len(named) == clients + late:
        return named[:clients]
    return tuple(map(str, range(clients)))
