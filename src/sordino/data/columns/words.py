"""Columns in words, for tables that people read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sordino.sentences import listed

NOT_SCALED = "as they stand, not scaled"


def values_in_words(column: Mapping[str, Any]) -> str:
    """What a column of a table may hold, by its settings."""
    if column["kind"] == "category":
        return listed(column["values"])
    scaled = ", scaled by bought statistics" if "scaling" in column else ""
    return f"{column['low']:g} to {column['high']:g}{scaled}" if "low" in column else NOT_SCALED


def missing_in_words(column: Mapping[str, Any]) -> str:
    """What a missing value counts as."""
    missing = column.get("missing", "refused")
    return f"{missing:g}" if isinstance(missing, float) else str(missing)
