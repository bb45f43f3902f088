"""Loading a data set: found by name or path, checked, split for training and testing, marked public or private."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

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

__all__ = ["KnownSource", "Source", "SourceFacts", "SourceSettings", "describe", "known", "load"]

_SPLIT_STREAM = 0x5011


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
    inputs, labels = _read(raw.train, raw.kind, class_names, settings)
    train_rows, test_rows = _rows(raw, settings, seed)
    if raw.test is None:
        test_inputs, test_labels = inputs[test_rows], labels[test_rows]
    else:
        test_inputs, test_labels = _read(raw.test, raw.kind, class_names, settings)
    normalisation = _normalisation(raw.kind, settings)
    train = Examples(inputs=inputs, labels=labels, normalisation=normalisation)
    return Source(
        name=name,
        train=train if len(train_rows) == len(train) else train.take(torch.from_numpy(train_rows)),
        test=Examples(inputs=test_inputs, labels=test_labels, normalisation=normalisation),
        classes=len(class_names),
        shape=tuple(inputs.shape[1:]),
        kind=raw.kind,
        visibility=settings.visibility,
        class_names=class_names,
        columns={column: values[train_rows] for column, values in raw.columns.items()},
        vocabulary=raw.vocabulary,
    )


def describe(settings: SourceSettings, *, seed: int = 0) -> SourceFacts:
    """Sizes, shape and classes without reading the examples where the format allows it."""
    raw, _ = _find(settings)
    train_rows, test_rows = _rows(raw, settings, seed)
    return SourceFacts(
        n_train=len(train_rows),
        n_test=len(test_rows) if raw.test is None else raw.test.count,
        shape=_shape(raw.train, raw.kind, settings),
        classes=len(name_classes(raw, settings)),
        kind=raw.kind,
        vocabulary=raw.vocabulary,
        groups={column: len(np.unique(values[train_rows])) for column, values in raw.columns.items()},
    )


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


def _read(
    split: Split, kind: Kind, class_names: tuple[str, ...], settings: SourceSettings
) -> tuple[torch.Tensor, torch.Tensor]:
    labels = number_labels(split.labels(), class_names, settings)
    array = split.inputs()
    if len(array) != len(labels):
        raise SordinoError(
            f"{settings.source!r} has {len(array)} inputs but {len(labels)} labels; each input needs one label."
        )
    dtypes: Mapping[Kind, type[np.generic]] = {"image": np.uint8, "tabular": np.float32, "text": np.int64}
    inputs = torch.from_numpy(array.astype(dtypes[kind], copy=False))
    if kind == "image":
        inputs = images.fit(inputs, resize=settings.resize, channels=settings.channels)
    return inputs, torch.from_numpy(labels)


def _rows(raw: Raw, settings: SourceSettings, seed: int) -> tuple[Array, Array]:
    """Which rows train and which, where the file has no test split, test; file order is kept unless rows are drawn."""
    if raw.test is not None and settings.limit is None:
        return np.arange(raw.train.count), np.arange(0)
    order = np.random.default_rng([seed, _SPLIT_STREAM]).permutation(raw.train.count)
    n_test = 0 if raw.test is not None else max(1, round(raw.train.count * settings.test_fraction))
    return order[n_test:][: settings.limit], order[:n_test]


def _normalisation(kind: Kind, settings: SourceSettings) -> Normalisation:
    usual = Normalisation() if kind == "image" else IDENTITY
    return Normalisation(
        scale=usual.scale if settings.scale is None else settings.scale,
        mean=settings.mean or usual.mean,
        std=settings.std or usual.std,
    )
