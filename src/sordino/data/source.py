"""Loading a data set: found by name or path, checked, split for training and testing, marked public or private."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import torch

from sordino.core import SordinoError, Visibility
from sordino.data import images
from sordino.data.embedded import EMBEDDED
from sordino.data.examples import IDENTITY, Examples, Normalisation
from sordino.data.formats import FORMATS
from sordino.data.labels import name_classes, number_labels
from sordino.data.locate import KnownSource, known, locate
from sordino.data.raw import Array, Raw, Split
from sordino.data.settings import Kind, SourceFacts, SourceSettings

__all__ = ["KnownSource", "Source", "SourceFacts", "SourceSettings", "describe", "known", "labels_and_columns", "load"]

_SPLIT_STREAM, _TEST_STREAM = 0x5011, 0x5012


@dataclass(frozen=True, kw_only=True)
class Origin:
    """How a data set was loaded, so that its rows can be looked at again as they stand in the file."""

    settings: SourceSettings
    seed: int


@dataclass(frozen=True, kw_only=True, eq=False)
class Source:
    """A checked data set. `columns` holds values of the training rows, such as whose they are."""

    name: str
    train: Examples
    test: Examples
    classes: int
    shape: tuple[int, ...]
    kind: Kind
    visibility: Visibility
    class_names: tuple[str, ...]
    columns: Mapping[str, Array] = field(default_factory=dict)
    vocabulary: int = 0
    origin: Origin | None = None

    def __post_init__(self) -> None:
        for part, examples in (("training", self.train), ("test", self.test)):
            where = f"The {part} split of {self.name!r}"
            if len(examples) == 0:
                raise SordinoError(f"{where} is empty; check the file and test_fraction.")
            self._check_range(where, "a label", examples.labels, self.classes, "mend the labels or declare classes")
            if self.kind == "text":
                self._check_range(
                    where, "a token", examples.inputs, self.vocabulary, "mend the tokens or raise vocabulary"
                )
            if self.kind == "tabular" and not (finite := examples.inputs.isfinite().all(1)).all():
                row = int(finite.logical_not().int().argmax())
                raise SordinoError(
                    f"{where} has a NaN, infinite or missing value, first in row {row + 1}; fill or drop such rows."
                )
        if any(len(column) != len(self.train) for column in self.columns.values()):
            raise SordinoError(
                f"A client column of {self.name!r} must have one value for each of the {len(self.train)} training rows."
            )

    @staticmethod
    def _check_range(where: str, what: str, values: torch.Tensor, stop: int, advice: str) -> None:
        low, high = int(values.min()), int(values.max())
        if low < 0 or high >= stop:
            raise SordinoError(f"{where} has {what} {low if low < 0 else high}, outside 0 to {stop - 1}; {advice}.")


def load(settings: SourceSettings, *, seed: int = 0) -> Source:
    """Read a data set. The test split is the file's own, or drawn with the seed where the file has none."""
    raw, name = _find(settings)
    class_names = name_classes(raw, settings)
    array, labels = _read(raw.train, class_names, settings)
    train_rows, test_rows = _rows(raw, settings, seed)
    train = _examples(array, labels, train_rows, raw.kind, settings)
    if raw.test is not None:
        array, labels = _read(raw.test, class_names, settings)
    return Source(
        name=name,
        train=train,
        test=_examples(array, labels, test_rows, raw.kind, settings),
        classes=len(class_names),
        shape=tuple(train.inputs.shape[1:]),
        kind=raw.kind,
        visibility=settings.visibility,
        class_names=class_names,
        columns=_columns(raw, train_rows),
        vocabulary=raw.vocabulary,
        origin=Origin(settings=settings, seed=seed),
    )


def raw_shape(origin: Origin) -> tuple[int, ...]:
    """The shape of a picture as it stands in the file."""
    return _unfitted(origin).train.shape


def raw_inputs(origin: Origin) -> tuple[torch.Tensor, torch.Tensor]:
    """The pictures of the training and of the test rows as they stand in the file, before any resizing."""
    raw = _unfitted(origin)
    train_rows, test_rows = _rows(raw, origin.settings, origin.seed)
    train = raw.train.inputs()
    test = train if raw.test is None else raw.test.inputs()
    return torch.from_numpy(train[train_rows]), torch.from_numpy(test[test_rows])


def _unfitted(origin: Origin) -> Raw:
    return _find(replace(origin.settings, resize=None, channels=None))[0]


def describe(settings: SourceSettings, *, seed: int = 0) -> SourceFacts:
    """Sizes, shape and classes without reading the examples where the format allows it."""
    raw, _ = _find(settings)
    train_rows, test_rows = _rows(raw, settings, seed)
    return SourceFacts(
        n_train=len(train_rows),
        n_test=len(test_rows),
        shape=_shape(raw.train, raw.kind, settings),
        classes=len(name_classes(raw, settings)),
        kind=raw.kind,
        vocabulary=raw.vocabulary,
        groups={column: len(np.unique(values)) for column, values in _columns(raw, train_rows).items()},
    )


def labels_and_columns(settings: SourceSettings, *, seed: int = 0) -> tuple[Array, Mapping[str, Array]]:
    """What training rows are dealt out by, in the order of `load`, without reading their inputs."""
    raw, _ = _find(settings)
    rows, _ = _rows(raw, settings, seed)
    labels = number_labels(raw.train.labels(), name_classes(raw, settings), settings)
    return labels[rows], _columns(raw, rows)


def _columns(raw: Raw, rows: Array) -> dict[str, Array]:
    return {column: values[rows] for column, values in raw.columns.items()}


def _find(settings: SourceSettings) -> tuple[Raw, str]:
    entry = locate(settings.source)
    raw = EMBEDDED[entry.name] if entry.path is None else FORMATS[entry.format].read(entry.path, settings)
    if raw.train.count == 0 or (raw.test is not None and raw.test.count == 0):
        raise SordinoError(f"{settings.source!r} holds no examples; check the file.")
    train, test = (_shape(split, raw.kind, settings) for split in (raw.train, raw.test or raw.train))
    if train != test:
        raise SordinoError(
            f"{settings.source!r} has training examples of {train} but test examples of {test}; "
            "save them alike, or set resize and channels."
        )
    if any(len(values) != raw.train.count for values in raw.columns.values()):
        raise SordinoError(
            f"The client column of {settings.source!r} must have one value for each of {raw.train.count} training rows."
        )
    return raw, entry.name


def _shape(split: Split, kind: Kind, settings: SourceSettings) -> tuple[int, ...]:
    if kind != "image":
        return split.shape
    return images.fitted_shape(split.shape, resize=settings.resize, channels=settings.channels)


def _read(split: Split, class_names: tuple[str, ...], settings: SourceSettings) -> tuple[Array, Array]:
    labels = number_labels(split.labels(), class_names, settings)
    array = split.inputs()
    if len(array) != len(labels):
        raise SordinoError(
            f"{settings.source!r} has {len(array)} inputs but {len(labels)} labels; each input needs one label."
        )
    return array, labels


def _examples(array: Array, labels: Array, rows: Array, kind: Kind, settings: SourceSettings) -> Examples:
    """The chosen rows, and pictures of those alone brought to size."""
    if not np.array_equal(rows, np.arange(len(labels))):
        array, labels = array[rows], labels[rows]
    dtypes: Mapping[Kind, type[np.generic]] = {"image": np.uint8, "tabular": np.float32, "text": np.int64}
    inputs = torch.from_numpy(array.astype(dtypes[kind], copy=False))
    if kind == "image":
        inputs = images.fit(inputs, resize=settings.resize, channels=settings.channels)
    return Examples(inputs=inputs, labels=torch.from_numpy(labels), normalisation=_normalisation(kind, settings))


def _rows(raw: Raw, settings: SourceSettings, seed: int) -> tuple[Array, Array]:
    """Which rows of their files train and test; file order is kept unless rows are drawn."""
    count = raw.train.count
    if raw.test is None:
        order = _drawn(count, seed, _SPLIT_STREAM)
        n_test = max(1, round(count * settings.test_fraction))
        return order[n_test:][: settings.limit], order[:n_test][: settings.test_limit]
    train = np.arange(count) if settings.limit is None else _drawn(count, seed, _SPLIT_STREAM)[: settings.limit]
    if settings.test_limit is None:
        return train, np.arange(raw.test.count)
    return train, _drawn(raw.test.count, seed, _TEST_STREAM)[: settings.test_limit]


def _drawn(count: int, seed: int, stream: int) -> Array:
    order: Array = np.random.default_rng([seed, stream]).permutation(count)
    return order


def _normalisation(kind: Kind, settings: SourceSettings) -> Normalisation:
    usual = Normalisation() if kind == "image" else IDENTITY
    return Normalisation(
        scale=usual.scale if settings.scale is None else settings.scale,
        mean=settings.mean or usual.mean,
        std=settings.std or usual.std,
    )
