"""From what people have (frames, arrays, texts, images) to the inputs of a trained model, exactly as in training.

A preparation is public: it holds what the experiment declared, or by leaving it out declared public, and no row.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from sordino.core import SordinoError
from sordino.data import images
from sordino.data.columns import Column, columns_of, tables_of
from sordino.data.columns.dialect import MISSING_WORDS, Dialect
from sordino.data.examples import Examples, Normalisation
from sordino.data.raw import Array
from sordino.data.reading import to_tensor
from sordino.data.settings import Kind
from sordino.data.source import Source
from sordino.data.table import Table
from sordino.data.target import Target, target_of
from sordino.data.tokenizer import Tokenizer, numbered
from sordino.settings import validated

GIVEN = "the data"
"""What sentences call a frame or an array that is in no file."""


@dataclass(frozen=True, kw_only=True)
class Preparation:
    """How rows become inputs of a model that tells `classes` apart; `shape` is that of one example.

    Tables have `columns`, or a `text_column` whose words are hashed to numbers below `vocabulary`, or cut by a `tokenizer`. Images are
    brought to `shape`.
    """

    kind: Kind
    shape: tuple[int, ...]
    classes: tuple[str, ...]
    normalisation: Normalisation
    target: dict[str, Any] | None = None
    """What is learnt, where it is a number; `classes` holds its name then."""
    vocabulary: int = 0
    columns: dict[str, dict[str, Any]] = field(default_factory=dict)
    text_column: str | None = None
    tokenizer: Tokenizer | None = None
    """How texts become numbers, where a file said so; its content is kept here."""
    separator: str | None = None
    decimal: str = "."
    thousands: str = ""
    na: tuple[str, ...] = MISSING_WORDS

    def __post_init__(self) -> None:
        wide = sum(column.width for column in self.layout.values())
        if self.columns and (wide,) != self.shape:
            raise SordinoError(
                f"columns should make {self.shape[0]} numbers of a row, but make {wide}; restore the file from a copy."
            )
        _ = self.dialect, self.number

    @staticmethod
    def of(source: Source) -> Preparation:
        """As this data set was prepared."""
        settings = None if source.origin is None else source.origin.settings
        said = ("text_column", "separator", "decimal", "thousands", "na")
        return Preparation(
            kind=source.kind,
            shape=source.shape,
            classes=source.class_names,
            normalisation=dataclasses.replace(source.train.normalisation, missing=()),
            vocabulary=source.vocabulary,
            tokenizer=source.tokenizer,
            target=None if source.target is None else source.target.to_json(),
            columns=tables_of(source.layout),
            **({} if settings is None else {name: getattr(settings, name) for name in said}),
        )

    @staticmethod
    def from_json(table: Mapping[str, Any]) -> Preparation:
        return validated(Preparation, table, where="preparation")

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @property
    def layout(self) -> dict[str, Column]:
        return columns_of(self.columns)

    @property
    def number(self) -> Target | None:
        return None if self.target is None else target_of(self.target)

    @property
    def dialect(self) -> Dialect:
        return Dialect(decimal=self.decimal, thousands=self.thousands, na=self.na)

    @property
    def is_table(self) -> bool:
        """Whether rows are asked for by the names of columns."""
        return bool(self.columns) or self.text_column is not None

    def of_table(self, table: Table) -> Examples:
        """Rows of a table that has the columns of the training table; other columns are passed over."""
        if self.text_column is not None:
            return self._tokens(table.texts(self.text_column))
        if not self.columns:
            raise SordinoError(
                f"The model was trained on {self.kind} arrays, but got the table {table.file}; give an array."
            )
        return self._examples(table.features(self.layout))

    def of_texts(self, texts: Sequence[str]) -> Examples:
        """One example for each text."""
        if self.kind != "text":
            raise SordinoError(
                f"The model was trained on {self.kind} data, but got {len(texts)} texts; give {self.wanted}."
            )
        return self._tokens(texts)

    def _tokens(self, texts: Sequence[str]) -> Examples:
        length = self.shape[0]
        return self._examples(numbered(texts, vocabulary=self.vocabulary, length=length, tokenizer=self.tokenizer))

    def of_array(self, array: Array, what: str = GIVEN) -> Examples:
        """One example for each entry of an array: images, rows of numbers in the order of the columns, or tokens."""
        if self.kind == "image":
            return self._images(array, what)
        if self.columns:
            return self.of_table(self._named(array, what))
        if array.ndim != 2 or array.shape[1] != self.shape[0] or array.dtype.kind not in "uif":
            raise SordinoError(
                f"The model takes rows of {self.shape[0]} numbers, but {what} has shape {array.shape} of {array.dtype}; save them alike."
            )
        if self.kind == "text" and (array.min(initial=0) < 0 or array.max(initial=0) >= self.vocabulary):
            raise SordinoError(
                f"The model knows tokens 0 to {self.vocabulary - 1}, but {what} has others; number them alike."
            )
        return self._examples(array)

    @property
    def wanted(self) -> str:
        """What there is to give, as the end of a sentence."""
        if self.columns:
            return f"a frame or a table with the columns {', '.join(self.columns)}"
        if self.text_column is not None:
            return f"texts, or a table with the column {self.text_column}"
        return f"an array whose entries have shape {' x '.join(map(str, self.shape))}"

    def _named(self, array: Array, what: str) -> Table:
        """An array as a table, where every column is a number and none is left to guess."""
        from pandas import DataFrame

        words = next((name for name, table in self.columns.items() if table["kind"] != "number"), None)
        if words is not None or array.ndim != 2 or array.shape[1] != len(self.columns):
            because = f"column {words!r} holds words" if words else f"{what} has shape {array.shape}"
            raise SordinoError(f"Columns should be given by name, because {because}; give {self.wanted}.")
        return Table(frame=DataFrame(array, columns=list(self.columns)), file=what, dialect=self.dialect)

    def _images(self, array: Array, what: str) -> Examples:
        if array.ndim not in (3, 4) or array.dtype != np.uint8:
            raise SordinoError(
                f"The model takes uint8 images (N x H x W or N x H x W x C), but {what} has shape {array.shape} of {array.dtype}; "
                "convert them."
            )
        channels, height, width = self.shape
        side = height if height == width else None
        fitted = images.fit(torch.from_numpy(images.channels_first(array)), resize=side, channels=channels)
        if tuple(fitted.shape[1:]) != self.shape:
            raise SordinoError(
                f"The model takes images of {height} x {width} pixels, but {what} has others; resize them."
            )
        return self._examples(fitted.numpy())

    def _examples(self, array: Array) -> Examples:
        inputs = to_tensor(array, self.kind)
        nobody = torch.zeros(len(inputs), dtype=torch.int64)
        return Examples(inputs=inputs, labels=nobody, normalisation=self.normalisation)
