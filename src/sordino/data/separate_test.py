"""A test source apart from the training rows: another file, read so that its rows fit the training set."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np

from sordino.core import SordinoError
from sordino.data.checks import refuse_mismatch
from sordino.data.columns import tables_of
from sordino.data.evaluation_rows import SeparateSource
from sordino.data.examples import Examples
from sordino.data.labels import are_words, number_labels
from sordino.data.locate import locate
from sordino.data.raw import Array, Raw, Split
from sordino.data.reading import drawn, find, shape_of, to_examples
from sordino.data.settings import SourceSettings

_STREAM = 0x5013


@dataclass(frozen=True, kw_only=True)
class Separate:
    """A test source whose shape, columns and classes are known to be those of the training set."""

    settings: SourceSettings
    training: Raw
    raw: Raw

    @property
    def split(self) -> Split:
        """The source's test split, or all that it holds where it has none."""
        return self.raw.test or self.raw.train

    def rows(self, seed: int) -> Array:
        limit = self.settings.limit
        return np.arange(self.split.count) if limit is None else drawn(self.split.count, seed, _STREAM)[:limit]

    def labels(self, class_names: tuple[str, ...], seed: int) -> Array:
        """The class numbers of the rows, without reading their inputs."""
        return self._numbered(class_names)[self.rows(seed)]

    def load(self, class_names: tuple[str, ...], seed: int) -> Examples:
        """The rows, with labels numbered as in training."""
        labels, array = self._numbered(class_names), self.split.inputs()
        refuse_mismatch(self.settings, inputs=len(array), labels=len(labels))
        return to_examples(array, labels, self.rows(seed), self.raw.kind, self.settings)

    def _numbered(self, class_names: tuple[str, ...]) -> Array:
        """Labels as in training; one that training does not know is refused by its name."""
        if self.settings.number is not None:
            return number_labels(self.split.labels(), class_names, self.settings)
        if are_words(self.training.train.labels()) and not are_words(self.split.labels()):
            raise SordinoError(
                f"Labels of the test source {self.settings.source!r} are numbers, but those of the training set are words "
                f"such as {class_names[0]!r}; save them alike."
            )
        labels = number_labels(self.split.labels(), class_names, self.settings)
        strange = (labels < 0) | (labels >= len(class_names))
        if strange.any():
            raise SordinoError(
                f"The test source {self.settings.source!r} has label {labels[strange][0]}, but the training set has classes 0 to "
                f"{len(class_names) - 1}; mend the labels or declare classes in [data.options]."
            )
        return labels


def find_separate(test: SeparateSource, settings: SourceSettings, training: Raw) -> Separate:
    """Find a test source and check that it goes with the training set, without reading its examples."""
    found = fit_separate(test, settings, training)
    if found.raw.test is None and locate(test.source) == locate(settings.source):
        raise SordinoError(
            f"[data] test names {test.source!r}, which is the training set itself and has no test split; name another source, or "
            'declare a split of it public with test = "public-split".'
        )
    return found


def fit_separate(test: SeparateSource, settings: SourceSettings, training: Raw) -> Separate:
    """The same where the training set is not here, and `training` says what is known of it."""
    shape = shape_of(training.train, training.kind, settings)
    own = _fitted(test, settings, training, shape)
    raw, _ = find(own)
    found = Separate(settings=own, training=training, raw=raw)
    if raw.kind != training.kind or (other := shape_of(found.split, raw.kind, own)) != shape:
        what = raw.kind if raw.kind != training.kind else " x ".join(map(str, other))
        expected = training.kind if raw.kind != training.kind else " x ".join(map(str, shape))
        raise SordinoError(
            f"The test source {test.source!r} holds examples of {what}, but the training set has {expected}; save them alike, "
            "or set resize and channels in [data.options]."
        )
    _refuse_other_classes(found, test.source)
    return found


def _fitted(test: SeparateSource, settings: SourceSettings, training: Raw, shape: tuple[int, ...]) -> SourceSettings:
    """How the test source is read: as the training set was, with the columns and categories that were found there."""
    square = training.kind == "image" and shape[1] == shape[2]
    return dataclasses.replace(
        settings,
        source=test.source,
        visibility="public",
        limit=test.limit,
        rows=None,
        public_share=None,
        resize=shape[1] if square else settings.resize,
        channels=shape[0] if training.kind == "image" else settings.channels,
        classes=None,
        class_names=() if settings.number is not None else settings.declared_classes or training.class_names,
        label_column=test.label_column or settings.label_column,
        text_column=test.text_column or settings.text_column,
        client_column=None,
        columns=tables_of(training.layout),
        categories={},
    )


def _refuse_other_classes(found: Separate, source: str) -> None:
    """Where both sources name their classes, the same number must mean the same class."""
    ours, theirs = found.training.class_names, found.raw.class_names
    if not ours or not theirs or ours == theirs:
        return
    at = next((at for at, pair in enumerate(zip(ours, theirs, strict=False)) if pair[0] != pair[1]), None)
    if at is None:
        raise SordinoError(
            f"The test source {source!r} names {len(theirs)} classes, but the training set names {len(ours)}; save them alike."
        )
    raise SordinoError(
        f"Class {at} is {theirs[at]!r} in the test source {source!r}, but {ours[at]!r} in the training set; number them alike."
    )
