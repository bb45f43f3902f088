"""The columns of a table as the terminal shows them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from sordino.data.columns.words import missing_in_words, values_in_words


def columns_tables(columns: Mapping[str, Mapping[str, Any]]) -> list[Table]:
    """One line per column that is learnt from; nothing for images and text."""
    if not columns:
        return []
    table = Table(title="Columns that are learnt from", title_justify="left", box=SIMPLE_HEAD)
    for heading in ("column", "kind", "values", "missing counts as"):
        table.add_column(heading)
    for name, column in columns.items():
        table.add_row(escape(name), column["kind"], escape(values_in_words(column)), escape(missing_in_words(column)))
    return [table]
