"""What a person says about a data set before it is loaded."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, get_args

from sordino.core import SordinoError, Visibility
from sordino.data.columns import Column, columns_of
from sordino.data.columns.dialect import MISSING_WORDS, Dialect
from sordino.data.target import Target, target_of

Kind = Literal["image", "tabular", "text"]

_ANY = 2**63 - 1
_RANGES = {
    "classes": (2, 1_000_000),
    "limit": (1, _ANY),
    "test_limit": (1, _ANY),
    "resize": (1, 10_000),
    "vocabulary": (2, 10_000_000),
    "length": (1, 100_000),
}


@dataclass(frozen=True, kw_only=True)
class SourceSettings:
    """Where a data set is, how to read it, and whether it is public or private.

    Everything here is public. `classes` (a list of names, or how many there are) and what `columns` declares may be left out, in
    which case they are taken from the data; whoever leaves them out declares that they, like the number of examples, may be known
    to all. `mean`, `std`, `scale` and the bounds of columns are constants of the person's choosing and never computed from data.

    `columns` lists the columns of a table to learn from, by name or each with a table: docs/data.md describes them. `separator`
    is taken from the header where it is not given; `decimal`, `thousands` and `na` say how a table writes its values.
    """

    source: str
    visibility: Visibility
    classes: int | tuple[str, ...] | None = None
    """The names of all classes, or how many there are."""
    class_names: tuple[str, ...] = ()
    """Names of classes where classes is a number."""
    test_fraction: float = 0.2
    """The share of rows that is set aside for testing, where the source has no test split."""
    public_share: float | None = None
    """The share of training rows that is declared public, the same ones in every run. Settings marked private use all other rows;
    the same source marked public, as of a start, uses these alone."""
    rows: tuple[int, int] | None = None
    """Only training rows from the first number, counted from 0, up to and without the second."""
    limit: int | None = None
    """At most so many rows are trained on."""
    test_limit: int | None = None
    """At most so many rows are tested on."""
    resize: int | None = None
    """The side of images, in pixels."""
    channels: int | None = None
    """1 makes images grey, 3 gives them colour."""
    scale: float | None = None
    """A factor of all numbers."""
    mean: tuple[float, ...] = ()
    """What is taken off each channel or column, a public constant."""
    std: tuple[float, ...] = ()
    """What each channel or column is divided by, a public constant."""
    label_column: str = "label"
    """The column to learn."""
    target: dict[str, Any] | None = None
    """Where the column to learn holds a number and no class: { kind = "number", low = 0, high = 100 }, with public bounds."""
    client_column: str | None = None
    """The column that says whose a row is; of image folders, the name of the level above classes."""
    text_column: str | None = None
    """A column of text, which becomes tokens."""
    columns: tuple[str, ...] | dict[str, Any] = ()
    """What each column holds, with public bounds."""
    categories: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The words of columns that are not declared in columns."""
    vocabulary: int = 8192
    """How many numbers tokens are hashed to."""
    length: int = 32
    """How many tokens of a text are used."""
    tokenizer: str | None = None
    """A file that says which tokens there are, made of public text: tokenizer.json, or a list of words."""
    separator: str | None = None
    """Between the cells of a CSV file."""
    decimal: str = "."
    """The decimal sign."""
    thousands: str = ""
    """The sign between groups of three digits."""
    na: tuple[str, ...] = MISSING_WORDS
    """Words that stand for a missing value."""
    bought_epsilon: float | None = None
    """What the statistics of columns with missing or scaling = "bought" cost together, of each client's budget."""

    @property
    def declared_classes(self) -> tuple[str, ...]:
        """The names of the classes, where a person gave any."""
        return self.classes if isinstance(self.classes, tuple) else self.class_names

    @property
    def class_count(self) -> int | None:
        """How many classes there are, where a person said so."""
        return self.classes if isinstance(self.classes, int) else len(self.declared_classes) or None

    @cached_property
    def number(self) -> Target | None:
        """The target, where it is a number and no class."""
        return None if self.target is None else target_of(self.target)

    @cached_property
    def declared_columns(self) -> dict[str, Column]:
        """The columns to learn from, where each is declared with its kind."""
        return columns_of(self.columns) if isinstance(self.columns, dict) else {}

    @cached_property
    def dialect(self) -> Dialect:
        """How a table writes its values."""
        return Dialect(decimal=self.decimal, thousands=self.thousands, na=self.na)

    def __post_init__(self) -> None:
        if self.visibility not in get_args(Visibility):
            raise SordinoError(
                f"The visibility of {self.source!r} must be 'public' or 'private', not {self.visibility!r}."
            )
        if not self.source.strip():
            raise SordinoError("source must be a name or a path, but it is empty.")
        if not 0 < self.test_fraction < 1:
            raise SordinoError(f"test_fraction must lie between 0 and 1, not at {self.test_fraction}.")
        if self.channels not in (None, 1, 3):
            raise SordinoError(f"channels must be 1 (grey) or 3 (colour), not {self.channels}.")
        for name, (least, most) in _RANGES.items():
            value = self.class_count if name == "classes" else getattr(self, name)
            if value is not None and not least <= value <= most:
                raise SordinoError(f"{name} must be at least {least} and at most {most}, but got {value}.")
        self._check_rows()
        self._check_classes()
        self._check_target()
        self._check_normalisation()
        self._check_columns()
        self._check_bought()

    def _check_rows(self) -> None:
        if self.public_share is not None and not 0 < self.public_share < 1:
            raise SordinoError(f"public_share must lie between 0 and 1, but got {self.public_share}.")
        if self.rows is not None and not 0 <= self.rows[0] < self.rows[1]:
            raise SordinoError(
                f"rows must be a first row from 0 on and one after the last, but got {list(self.rows)}; write for instance [0, 5000]."
            )
        if self.rows is not None and self.public_share is not None:
            raise SordinoError("rows and public_share both say which rows are used, but one is enough; keep one.")

    def _check_classes(self) -> None:
        names = self.declared_classes
        if isinstance(self.classes, tuple) and self.class_names:
            raise SordinoError("classes and class_names both list the classes, but one list is enough; keep classes.")
        if names and self.class_count != len(names):
            raise SordinoError(f"classes is {self.classes} but class_names lists {len(names)}; make them agree.")
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise SordinoError(f"classes should list every class once, but got {twice!r} twice; remove one.")

    def _check_target(self) -> None:
        if self.number is not None and self.class_count is not None:
            raise SordinoError(
                "target declares a number to learn, but classes or class_names declares classes; keep one of them."
            )

    def _check_columns(self) -> None:
        """Refuse columns that would give the answer away or are declared twice, and signs that no table has."""
        for name, role in ((self.label_column, "label_column"), (self.client_column, "client_column")):
            if name is not None and name in self.columns:
                raise SordinoError(
                    f"columns should list what is learnt from, but got {name!r}, which is the {role}; leave it out of columns."
                )
        declared = self.declared_columns
        both = next((name for name in self.categories if name in declared), None)
        if both is not None:
            raise SordinoError(f"columns.{both} and categories both declare {both!r}; keep columns.{both}.")
        if self.columns and self.text_column is not None:
            raise SordinoError(
                "columns and text_column were both given, but a model learns from one of them; keep one."
            )
        if self.separator is not None and (len(self.separator) != 1 or self.separator == self.decimal != "."):
            raise SordinoError(
                f"separator should be one sign other than the decimal one, such as ';', but got {self.separator!r}; correct it."
            )
        if self.tokenizer is not None and self.text_column is None:
            raise SordinoError(
                f"tokenizer names {self.tokenizer!r}, but there is no text to cut; name the column of text with text_column."
            )
        _ = self.dialect

    def _check_bought(self) -> None:
        bought = {name: column for name, column in self.declared_columns.items() if column.bought}
        if bought and self.bought_epsilon is None:
            name, column = next(iter(bought.items()))
            key, instead = (
                ("missing", "give missing a number") if column.buys_missing else ("scaling", "leave scaling out")
            )
            raise SordinoError(
                f"columns.{name} has {key} = 'bought', which has a price; set bought_epsilon in [data.options], such as "
                f"bought_epsilon = 0.1, or {instead}."
            )
        if self.bought_epsilon is not None and not (bought and 0 < self.bought_epsilon < math.inf):
            raise SordinoError(
                f"bought_epsilon should be above 0, and pay for columns with missing or scaling = 'bought', but got "
                f"{self.bought_epsilon:g} and {len(bought)} such columns; correct it, or leave it out."
            )
        if bought and (self.mean or self.std or self.scale is not None):
            raise SordinoError(
                f"columns.{next(iter(bought))} buys statistics, but mean, std or scale in [data.options] changes all columns as well; "
                "leave these out."
            )

    def _check_normalisation(self) -> None:
        constants = (*self.mean, *self.std, 1.0 if self.scale is None else self.scale)
        if not all(map(math.isfinite, constants)) or not all(std > 0 for std in self.std) or self.scale == 0:
            raise SordinoError(
                "scale, mean and std must be finite, std above zero and scale not zero; mend the settings."
            )


@dataclass(frozen=True, kw_only=True)
class PartOfSet:
    """The part of a source's training rows that an experiment may use, where `public_share` or `rows` leaves some out."""

    rows: int
    """Those to test on among them, where test rows are drawn from the training rows."""
    left_out: int
    without: Mapping[str, int]
    """How many distinct values of each client column have no row in this part."""


@dataclass(frozen=True, kw_only=True)
class SourceFacts:
    """What a plan needs to know of a data set; `groups` counts the distinct values of each client column."""

    n_train: int
    n_test: int
    shape: tuple[int, ...]
    classes: int
    kind: Kind
    vocabulary: int = 0
    groups: Mapping[str, int] = field(default_factory=dict)
    set_aside: bool = False
    """Whether the test rows are drawn from the training rows, because the source has no test split of its own."""
    notes: tuple[str, ...] = ()
    """What a person should know before trusting a run on it."""
    guessed: tuple[str, ...] = ()
    """Columns of a private table whose words were taken from its rows, because nobody declared them."""
    group_names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The distinct values of each client column, in their order."""
    part: PartOfSet | None = None
    """What is left of the source, where it is used in part."""
