"""Labels as class numbers, and how many classes there are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sordino.core import SordinoError, unknown
from sordino.data.raw import Array, Raw
from sordino.data.settings import SourceSettings

MOST_UNDECLARED_CLASSES = 1000


def name_classes(raw: Raw, settings: SourceSettings) -> tuple[str, ...]:
    """One name per class: as declared, as the format says, or taken from the labels if nobody says. A number has its column's name."""
    if settings.number is not None:
        return (settings.label_column,)
    names = settings.declared_classes or raw.class_names
    declared = settings.class_count or raw.classes or len(names)
    if names and len(names) == declared:
        return names
    if declared:
        return _numbered(declared)
    labels = [split.labels() for split in (raw.train, raw.test) if split is not None and split.count > 0]
    if not labels:
        raise SordinoError(f"{settings.source!r} holds no examples; check the file.")
    if any(are_words(part) for part in labels):
        return tuple(np.unique(np.concatenate([_words(part, settings) for part in labels])).tolist())
    highest = max(int(_numbers(part, settings).max()) for part in labels)
    if highest >= max(MOST_UNDECLARED_CLASSES, raw.train.count):
        raise SordinoError(
            f"{settings.source!r} has labels up to {highest}, too many to be class numbers; declare classes."
        )
    return _numbered(highest + 1)


def number_labels(labels: Array, names: Sequence[str], settings: SourceSettings) -> Array:
    """Labels as int64 class numbers, words looked up among the class names; a number as what a model learns of it."""
    if settings.number is not None:
        return settings.number.of_array(labels, settings.source)
    if not are_words(labels):
        return _numbers(labels, settings)
    words = _words(labels, settings)
    order = np.argsort(names)
    places = np.searchsorted(np.array(names), words, sorter=order).clip(max=len(names) - 1)
    numbers: Array = order[places]
    strange = np.array(names)[numbers] != words
    if strange.any():
        raise SordinoError(unknown(f"class of {settings.source!r}", str(words[strange][0]), names))
    return numbers.astype(np.int64)


def _numbered(classes: int) -> tuple[str, ...]:
    return tuple(map(str, range(classes)))


def are_words(labels: Array) -> bool:
    """Whether labels are to be looked up among the class names."""
    return labels.dtype.kind not in "uifb"


def _words(labels: Array, settings: SourceSettings) -> Array:
    missing = [row for row, label in enumerate(labels) if not isinstance(label, str)]
    if missing and labels.dtype.kind == "O":
        raise SordinoError(f"{settings.source!r} has no label in row {missing[0] + 1}; fill or drop such rows.")
    return labels.astype(str)


def _numbers(labels: Array, settings: SourceSettings) -> Array:
    flat = labels.reshape(-1) if labels.ndim == 2 and labels.shape[1] == 1 else labels
    if flat.ndim != 1:
        raise SordinoError(
            f"Labels of {settings.source!r} must be one number per example, but have shape {labels.shape}."
        )
    strange = ~np.isfinite(flat) | (flat != np.floor(flat)) if flat.dtype.kind == "f" else np.zeros(len(flat), bool)
    if strange.any():
        raise SordinoError(
            f"Labels of {settings.source!r} must be whole numbers, but one is {flat[strange][0]}; mend or drop it, or declare "
            "target = { kind = 'number', low = ..., high = ... } in [data.options] to learn a number."
        )
    return flat.astype(np.int64)
