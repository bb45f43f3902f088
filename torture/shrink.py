"""The smallest table that still fails."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator

from torture.toml import Table


def smallest(table: Table, fails: Callable[[Table], bool]) -> Table:
    """Remove whole sections, then single keys, as long as the rest still fails the same way."""
    best = copy.deepcopy(table)
    for path in [*_sections(best), *_keys(best)]:
        tried = copy.deepcopy(best)
        inner = tried
        for key in path[:-1]:
            inner = inner.get(key, {})
        if path[-1] in inner:
            del inner[path[-1]]
            if fails(tried):
                best = tried
    return best


def _sections(table: Table) -> Iterator[tuple[str, ...]]:
    yield from ((key,) for key, value in table.items() if isinstance(value, dict))


def _keys(table: Table, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _keys(value, (*above, key))
        yield (*above, key)
