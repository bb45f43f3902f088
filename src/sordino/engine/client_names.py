"""What clients are called: by the values of the client column where it makes the clients."""

from __future__ import annotations

from collections.abc import Mapping

from sordino.engine.resolved import Resolved


def client_names(resolved: Resolved, groups: Mapping[str, tuple[str, ...]], *, clients: int) -> tuple[str, ...]:
    """One name for each of the clients that train, by the distinct values of client columns; none where they are only numbers."""
    data = resolved.experiment.data
    named = groups.get(resolved.source.client_column or "", ())
    made_by_it = data.partition == {"name": "column"} and len(named) == clients + data.late_clients
    return named[:clients] if made_by_it else ()
