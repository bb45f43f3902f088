"""Which training rows of a source an experiment may use at all: one set can have a public and a private part, which never overlap."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from sordino.core import SordinoError
from sordino.data.raw import Array
from sordino.data.reading import drawn
from sordino.data.settings import PartOfSet, SourceSettings

_STREAM, _SEED = 0x5014, 0
"""Which rows are public must not depend on the seed of a run, or two runs would call different rows so."""


def row_pool(count: int, settings: SourceSettings) -> Array:
    """The rows of a file of `count` that these settings are about, in the file's order.

    Of a public share, settings marked public have the rows that belong to it, and settings marked private all others.
    """
    if settings.rows is not None:
        first, stop = settings.rows
        if stop > count:
            raise SordinoError(
                f"rows = [{first}, {stop}] should lie within {settings.source!r}, but got a source of {count} training rows; lower them."
            )
        return np.arange(first, stop)
    if settings.public_share is None:
        return np.arange(count)
    order, public = drawn(count, _SEED, _STREAM), round(count * settings.public_share)
    if not 0 < public < count:
        raise SordinoError(
            f"public_share = {settings.public_share} should leave rows on both sides, but got {public} public ones of the "
            f"{count} of {settings.source!r}; change it."
        )
    chosen: Array = np.sort(order[:public] if settings.visibility == "public" else order[public:])
    return chosen


def part_of_set(count: int, columns: Mapping[str, Array], settings: SourceSettings) -> PartOfSet | None:
    """What is left of a file of `count` rows with these client columns, where settings use it in part."""
    if settings.rows is None and settings.public_share is None:
        return None
    pool = row_pool(count, settings)
    without = {name: len(np.unique(values)) - len(np.unique(values[pool])) for name, values in columns.items()}
    return PartOfSet(rows=len(pool), left_out=count - len(pool), without=without)


def parts_of_one_set(private: SourceSettings, public: SourceSettings) -> bool:
    """Whether both say which rows of one source they are about, so that no row is in both."""
    if private.rows is not None and public.rows is not None:
        return public.rows[1] <= private.rows[0] or private.rows[1] <= public.rows[0]
    if private.public_share is not None and public.public_share is not None:
        return private.visibility == "private" and public.public_share <= private.public_share
    return False
