"""CSV and Parquet tables with numeric, categorical or text columns."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from sordino.core import SordinoError
from sordino.data import csv_file
from sordino.data.columns import Category, Column
from sordino.data.formats import FORMATS
from sordino.data.raw import Array, Raw, in_memory, reading
from sordino.data.settings import SourceSettings
from sordino.data.table import Table, read_table
from sordino.data.tokenizer import named_tokenizer, numbered
from sordino.sentences import listed


@FORMATS.register("table")
class TableFile:
    """CSV (also .gz, .xz, .bz2) or Parquet: text_column becomes tokens, otherwise columns become numbers.

    Columns are read as `columns` declares them: numbers by public bounds, words one number per declared category. Where nothing
    is declared, a column holds numbers or words and no mixture, and the words found are by that declared public.
    """

    @staticmethod
    def accepts(path: Path) -> bool:
        return path.is_file() and path.name.lower().endswith((*csv_file.SUFFIXES, ".parquet"))

    @staticmethod
    def read(path: Path, settings: SourceSettings) -> Raw:
        with reading(path):
            return raw_table(read_table(path, settings.dialect, settings.separator), settings)


def raw_table(table: Table, settings: SourceSettings) -> Raw:
    """A table's columns as its settings declare them."""
    labels = (
        table.labels(settings.label_column, settings.declared_classes)
        if settings.number is None
        else table.targets(settings.label_column, settings.number)
    )
    client = settings.client_column
    clients = {client: table.clients(client)} if client else {}
    if settings.text_column:
        tokenizer = named_tokenizer(settings.tokenizer)
        vocabulary = settings.vocabulary if tokenizer is None else tokenizer.vocabulary
        tokens = numbered(
            table.texts(settings.text_column), vocabulary=vocabulary, length=settings.length, tokenizer=tokenizer
        )
        return Raw(
            kind="text",
            train=in_memory(tokens, labels),
            columns=clients,
            vocabulary=vocabulary,
            tokenizer=tokenizer,
            guessed=_guessed({}, {}, labels, settings),
        )
    declared = _declared(table, settings)
    columns = table.columns(declared)
    guessed = _guessed(columns, declared, labels, settings)
    return Raw(
        kind="tabular",
        train=in_memory(table.features(columns), labels),
        columns=clients,
        layout=columns,
        notes=tuple(_notes(columns, guessed, settings)),
        guessed=guessed,
    )


def _declared(table: Table, settings: SourceSettings) -> dict[str, Column | None]:
    """The columns to learn from: those that the experiment lists, else all but label and client."""
    apart = {settings.label_column, settings.client_column}
    if settings.declared_columns:
        return dict(settings.declared_columns)
    names = settings.columns or [name for name in map(str, table.frame.columns) if name not in apart]
    if not names:
        raise SordinoError(
            f"There is no column in {table.file} besides label and client; add the columns to learn from."
        )
    return {name: _category(name, settings.categories) for name in names}


def _category(name: str, categories: Mapping[str, tuple[str, ...]]) -> Category | None:
    return Category(values=categories[name]) if name in categories else None


def _guessed(
    columns: Mapping[str, Column], declared: Mapping[str, Column | None], labels: Array, settings: SourceSettings
) -> tuple[str, ...]:
    """Columns whose words come from private rows: one row may hold a word that no other has."""
    if settings.visibility == "public":
        return ()
    found = [name for name, column in columns.items() if isinstance(column, Category) and declared[name] is None]
    if labels.dtype.kind not in "ui" and not settings.declared_classes and settings.number is None:
        found.append(settings.label_column)
    return tuple(found)


def _notes(columns: Mapping[str, Column], guessed: tuple[str, ...], settings: SourceSettings) -> list[str]:
    """What a person should know of columns that were not declared, or only in part."""
    notes = []
    unscaled = [name for name, column in columns.items() if not column.scaled]
    if unscaled and not (settings.mean or settings.std or settings.scale):
        notes.append(
            f"Columns used as they stand, without public bounds: {listed(unscaled)}. Large numbers learn badly under clipping: in "
            f"[data.options], write columns.{unscaled[0]} = {{ kind = 'number', low = ..., high = ... }}."
        )
    if guessed:
        notes.append(
            f"Columns whose words were taken from the data, as if they were public: {listed(guessed)}. A secure run refuses that: "
            "declare them with columns and classes in [data.options]."
        )
    return notes
