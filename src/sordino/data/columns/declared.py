"""From tables of settings to columns and back, in the form that experiments and run records keep."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from sordino.core import SordinoError
from sordino.data.columns.category import Category
from sordino.data.columns.number import Number
from sordino.sentences import shown
from sordino.settings import validated

Column = Number | Category

KINDS: Mapping[str, type[Column]] = {"number": Number, "category": Category}


def columns_of(tables: Mapping[str, Any]) -> dict[str, Column]:
    """The columns that `columns.NAME = { kind = ..., ... }` declare, in their order."""
    return {name: _column(table, where=f"columns.{name}") for name, table in tables.items()}


def tables_of(columns: Mapping[str, Column]) -> dict[str, dict[str, Any]]:
    """The same as tables of settings."""
    return {name: {"kind": column.kind, **_settings(column)} for name, column in columns.items()}


def _settings(column: Column) -> dict[str, Any]:
    found = dataclasses.asdict(column)
    return {
        key: list(value) if isinstance(value, tuple) else value for key, value in found.items() if value is not None
    }


def _column(table: object, *, where: str) -> Column:
    if not isinstance(table, Mapping):
        raise SordinoError(
            f"[{where}] should be a table such as {{ kind = 'number', low = 0, high = 1 }}, but got {shown(table)}."
        )
    rest = dict(table)
    kind = rest.pop("kind", None)
    if kind not in KINDS:
        raise SordinoError(f"[{where}] needs a kind, one of {', '.join(KINDS)}, but got {shown(kind)}.")
    return validated(KINDS[str(kind)], rest, where=where)
