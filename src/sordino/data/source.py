"""Loading a data set: found by name or path, checked, split for training and testing, marked public or private."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import accumulate

import numpy as np
import torch
from torch import Tensor

from sordino.core import SordinoError, Visibility
from sordino.data.checks import check_labels, check_range, refuse_mismatch
from sordino.data.client_names import group_names
from sordino.data.columns import Column, Number
from sordino.data.evaluation_rows import NOT_SAID, EvaluationRows, SeparateSource, SetAside
from sordino.data.examples import Examples
from sordino.data.labels import name_classes, number_labels
from sordino.data.locate import KnownSource, known
from sordino.data.overlap import refuse_shared_rows
from sordino.data.raw import Array, Raw, Split
from sordino.data.reading import drawn, find, read_split, shape_of, to_examples
from sordino.data.row_pool import part_of_set, row_pool
from sordino.data.separate_test import find_separate
from sordino.data.settings import Kind, PartOfSet, SourceFacts, SourceSettings
from sordino.data.target import Target, part_numbers
from sordino.data.tokenizer import Tokenizer

__all__ = [
    "Bought",
    "KnownSource",
    "Source",
    "SourceFacts",
    "SourceSettings",
    "describe",
    "known",
    "labels_and_columns",
    "load",
    "test_labels",
    "training_rows",
]

_SPLIT_STREAM, _TEST_STREAM = 0x5011, 0x5012


@dataclass(frozen=True, kw_only=True)
class Origin:
    """How a data set was loaded, so that its rows can be looked at again as they stand in the file."""

    settings: SourceSettings
    seed: int
    test: EvaluationRows


@dataclass(frozen=True, kw_only=True)
class Bought:
    """What was released of a column: mean and deviation of what a model is fed, in the scale of the bounds."""

    place: float
    deviation: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Source:
    """A checked data set. `columns` holds values of the training rows, such as whose they are."""

    name: str
    train: Examples
    test: Examples | None
    """Public rows, on which whatever is measured costs nothing; none where evaluation is charged."""
    classes: int
    shape: tuple[int, ...]
    kind: Kind
    visibility: Visibility
    class_names: tuple[str, ...]
    columns: Mapping[str, Array] = field(default_factory=dict)
    vocabulary: int = 0
    tokenizer: Tokenizer | None = None
    """How texts became numbers, where a file says so."""
    target: Target | None = None
    """What is learnt, where it is a number: a model has one output then, and `class_names` holds the number's name."""
    layout: Mapping[str, Column] = field(default_factory=dict)
    """Of a table: the columns that are learnt from, as they were declared or found."""
    notes: tuple[str, ...] = ()
    """What a person should know before trusting a run on it."""
    guessed: tuple[str, ...] = ()
    """Columns of a private table whose words were taken from its rows, because nobody declared them."""
    set_aside: bool = False
    """Whether the test rows were drawn from the training rows, because the source has no test split of its own."""
    elsewhere: bool = False
    """Whether the training rows lie with others, who keep them; `train` is empty then."""
    origin: Origin | None = None
    part: PartOfSet | None = None
    """What is left of the source, where it is used in part."""

    @property
    def bought(self) -> dict[str, int]:
        """Columns that wait for released statistics: by name, the place among the numbers of a row."""
        places = accumulate((column.width for column in self.layout.values()), initial=0)
        return {
            name: place for (name, column), place in zip(self.layout.items(), places, strict=False) if column.bought
        }

    def with_bought(self, statistics: Mapping[str, Bought]) -> Source:
        """The same rows, filled and scaled by these statistics."""
        missing, mean, deviation = ([value] * self.shape[0] for value in (0.0, 0.0, 1.0))
        layout = dict(self.layout)
        for name, found in statistics.items():
            column, at = layout[name], self.bought[name]
            assert isinstance(column, Number)
            if column.buys_missing:
                missing[at] = found.place
                layout[name] = dataclasses.replace(column, missing=column.unscaled_value(found.place))
            if column.buys_scaling:
                mean[at], deviation[at] = found.place, found.deviation
        usual = self.train.normalisation
        scaled = any(isinstance(column, Number) and column.buys_scaling for column in layout.values())
        made = dataclasses.replace(
            usual,
            missing=tuple(missing) if any(self.layout[name].buys_missing for name in statistics) else usual.missing,
            mean=tuple(mean) if scaled else usual.mean,
            std=tuple(deviation) if scaled else usual.std,
        )
        train, test = (
            None if part is None else dataclasses.replace(part, normalisation=made) for part in (self.train, self.test)
        )
        assert train is not None
        return dataclasses.replace(self, train=train, test=test, layout=layout)

    def _known(self, examples: Examples) -> Tensor:
        """Which numbers are fit to be learnt from: finite ones, and NaN where a mean will take its place."""
        found = examples.inputs.isfinite()
        for name, place in self.bought.items():
            if self.layout[name].buys_missing:
                found[:, place] |= examples.inputs[:, place].isnan()
        return found if not examples.normalisation.missing else found | examples.inputs.isnan()

    @property
    def group_names(self) -> tuple[str, ...]:
        """What rows are dealt out by: the classes, or parts of the range of a number."""
        return self.class_names if self.target is None else self.target.part_names

    def groups(self, examples: Examples) -> Array:
        """Which of `group_names` each example belongs to."""
        return _groups(examples.labels.cpu().numpy())

    @property
    def n_test(self) -> int:
        return 0 if self.test is None else len(self.test)

    @property
    def public_test(self) -> Examples:
        """The public rows to test on; where there are none, nothing may be measured for free."""
        if self.test is None:
            raise SordinoError(
                f"{self.name!r} has no public test rows, because [data] test lets its evaluation be charged; name a public set."
            )
        return self.test

    def __post_init__(self) -> None:
        for part, examples in (("training", self.train), ("test", self.test)):
            if examples is None or (self.elsewhere and not len(examples)):
                continue
            where = f"The {part} split of {self.name!r}"
            check_labels(where, examples.labels.cpu().numpy(), self.classes)
            if self.kind == "text":
                check_range(
                    where,
                    "a token",
                    examples.inputs.cpu().numpy(),
                    self.vocabulary,
                    "mend the tokens or raise vocabulary",
                )
            if self.kind == "tabular" and not (finite := self._known(examples).all(1)).all():
                row = int(finite.logical_not().int().argmax())
                raise SordinoError(
                    f"{where} has a NaN, infinite or missing value, first in row {row + 1}; fill or drop such rows."
                )
        if any(len(column) != len(self.train) for column in self.columns.values()):
            raise SordinoError(
                f"A client column of {self.name!r} must have one value for each of the {len(self.train)} training rows."
            )


def load(settings: SourceSettings, *, seed: int = 0, test: EvaluationRows = NOT_SAID) -> Source:
    """Read a data set, and the public rows that it is tested on, if there are any."""
    raw, name = _find(settings, test)
    class_names = name_classes(raw, settings)
    array, labels = read_split(raw.train, class_names, settings)
    train_rows, test_rows = _rows(raw, settings, seed, test)
    train = to_examples(array, labels, train_rows, raw.kind, settings)
    tested: Examples | None = None
    if isinstance(test, SeparateSource):
        tested = find_separate(test, settings, raw).load(class_names, seed)
        pool = row_pool(raw.train.count, settings)
        whole = train if settings.limit is None else to_examples(array, labels, pool, raw.kind, settings)
        refuse_shared_rows(whole, tested, settings, test.source, alike_by_chance=test.alike_by_chance)
    elif isinstance(test, SetAside):
        if raw.test is not None:
            array, labels = read_split(raw.test, class_names, settings)
        tested = to_examples(array, labels, test_rows, raw.kind, settings)
    return Source(
        name=name,
        train=train,
        test=tested,
        classes=len(class_names),
        shape=tuple(train.inputs.shape[1:]),
        kind=raw.kind,
        visibility=settings.visibility,
        class_names=class_names,
        columns=_columns(raw, train_rows),
        vocabulary=raw.vocabulary,
        tokenizer=raw.tokenizer,
        target=settings.number,
        layout=raw.layout,
        notes=raw.notes,
        guessed=raw.guessed,
        set_aside=_sets_aside(raw, test),
        origin=Origin(settings=settings, seed=seed, test=test),
        part=part_of_set(raw.train.count, raw.columns, settings),
    )


def raw_shape(origin: Origin) -> tuple[int, ...]:
    """The shape of a image as it stands in the file."""
    return _unfitted(origin).train.shape


def raw_inputs(origin: Origin) -> list[Tensor]:
    """The images of the training rows as they stand in the file, before any resizing, and of test rows from the same source."""
    raw = _unfitted(origin)
    train_rows, test_rows = _rows(raw, origin.settings, origin.seed, origin.test)
    train = raw.train.inputs()
    test = train if raw.test is None else raw.test.inputs()
    both = [train[train_rows], *([test[test_rows]] if len(test_rows) else [])]
    return [torch.from_numpy(inputs) for inputs in both]


def _unfitted(origin: Origin) -> Raw:
    return _find(dataclasses.replace(origin.settings, resize=None, channels=None), origin.test)[0]


def describe(settings: SourceSettings, *, seed: int = 0, test: EvaluationRows = NOT_SAID) -> SourceFacts:
    """Sizes, shape and classes without reading the examples where the format allows it."""
    raw, _ = _find(settings, test)
    train_rows, test_rows = _rows(raw, settings, seed, test)
    class_names = name_classes(raw, settings)
    n_test = len(test_rows)
    if isinstance(test, SeparateSource):
        n_test = len(find_separate(test, settings, raw).rows(seed))
    found = {column: group_names(values) for column, values in _columns(raw, train_rows).items()}
    return SourceFacts(
        n_train=len(train_rows),
        n_test=n_test,
        shape=shape_of(raw.train, raw.kind, settings),
        classes=len(class_names),
        kind=raw.kind,
        vocabulary=raw.vocabulary,
        groups={column: len(values) for column, values in found.items()},
        set_aside=_sets_aside(raw, test),
        notes=raw.notes,
        guessed=raw.guessed,
        group_names=found,
        part=part_of_set(raw.train.count, raw.columns, settings),
    )


def labels_and_columns(
    settings: SourceSettings,
    *,
    seed: int = 0,
    test: EvaluationRows = NOT_SAID,
) -> tuple[Array, Mapping[str, Array]]:
    """What training rows are dealt out by, in the order of `load`, without reading their inputs."""
    raw, name = _find(settings, test)
    rows, _ = _rows(raw, settings, seed, test)
    return _labels(raw, raw.train, rows, settings, f"The training split of {name!r}"), _columns(raw, rows)


def training_rows(settings: SourceSettings, *, seed: int = 0, test: EvaluationRows = NOT_SAID) -> Array:
    """Which rows of the file train, in the order of `load`."""
    raw, _ = _find(settings, test)
    return _rows(raw, settings, seed, test)[0]


def test_labels(settings: SourceSettings, *, seed: int = 0, test: EvaluationRows = NOT_SAID) -> Array | None:
    """The labels of public test rows, in the order of `load`, without reading their inputs; None where there are none."""
    raw, name = _find(settings, test)
    if isinstance(test, SeparateSource):
        return _groups(find_separate(test, settings, raw).labels(name_classes(raw, settings), seed))
    if not isinstance(test, SetAside):
        return None
    _, rows = _rows(raw, settings, seed, test)
    return _labels(raw, raw.test or raw.train, rows, settings, f"The test split of {name!r}")


def _labels(raw: Raw, split: Split, rows: Array, settings: SourceSettings, where: str) -> Array:
    classes = name_classes(raw, settings)
    labels = number_labels(split.labels(), classes, settings)
    refuse_mismatch(settings, inputs=split.count, labels=len(labels))
    check_labels(where, labels[rows], len(classes))
    return _groups(labels[rows])


def _groups(labels: Array) -> Array:
    return part_numbers(labels) if labels.dtype.kind == "f" else labels


def _columns(raw: Raw, rows: Array) -> dict[str, Array]:
    return {column: values[rows] for column, values in raw.columns.items()}


def _find(settings: SourceSettings, test: EvaluationRows) -> tuple[Raw, str]:
    """The source; its own test split is left out where other rows are to be tested on."""
    raw, name = find(settings)
    return (raw if isinstance(test, SetAside) else dataclasses.replace(raw, test=None)), name


def _sets_aside(raw: Raw, test: EvaluationRows) -> bool:
    return raw.test is None and isinstance(test, SetAside)


def _rows(raw: Raw, settings: SourceSettings, seed: int, test: EvaluationRows) -> tuple[Array, Array]:
    """Which rows of their files train and test; file order is kept unless rows are drawn."""
    pool = row_pool(raw.train.count, settings)
    if _sets_aside(raw, test):
        order = pool[drawn(len(pool), seed, _SPLIT_STREAM)]
        n_test = max(1, round(len(pool) * settings.test_fraction))
        return order[n_test:][: settings.limit], order[:n_test][: settings.test_limit]
    train = pool if settings.limit is None else pool[drawn(len(pool), seed, _SPLIT_STREAM)[: settings.limit]]
    if raw.test is None:
        return train, np.arange(0)
    if settings.test_limit is None:
        return train, np.arange(raw.test.count)
    return train, drawn(raw.test.count, seed, _TEST_STREAM)[: settings.test_limit]
