"""The columns of a table as the terminal shows them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from sordino.sentences import listed


def columns_tables(columns: Mapping[str, Mapping[str, Any]]) -> list[Table]:
    """One line per column that is learnt from; nothing for images and text."""
    if not columns:
        return []
    table = Table(title="Columns that are learnt from", title_justify="left", box=SIMPLE_HEAD)
    for heading in ("column", "kind", "values", "missing counts as"):
        table.add_column(heading)
    for name, column in columns.items():
        table.add_row(escape(name), column["kind"], escape(_values(column)), escape(_missing(column)))
    return [table]


def _values(column: Mapping[str, Any]) -> str:
    if column["kind"] == "category":
        return listed(column["values"])
    return f"{column['low']:g} to {column['high']:g}" if "low" in column else "as they stand, not scaled"


def _missing(column: Mapping[str, Any]) -> str:
    return str(column["missing"]) if "missing" in column else "refused"
