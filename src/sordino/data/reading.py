"""From a source's name to its splits, and from a split to examples of one shape."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from sordino.core import SordinoError
from sordino.data import images
from sordino.data.checks import check_columns, check_memory, refuse_mismatch
from sordino.data.embedded import EMBEDDED
from sordino.data.examples import IDENTITY, Examples, Normalisation
from sordino.data.formats import FORMATS
from sordino.data.held import held, is_held
from sordino.data.kept import kept
from sordino.data.labels import number_labels
from sordino.data.locate import AT_NODES, KnownSource, locate
from sordino.data.raw import Array, Raw, Split
from sordino.data.settings import Kind, SourceSettings


def find(settings: SourceSettings) -> tuple[Raw, str]:
    """A source as its format reads it, and its name; splits that are empty or do not go together are refused."""
    entry = locate(settings.source)
    raw = _read(entry, settings)
    if raw.train.count == 0 or (raw.test is not None and raw.test.count == 0):
        raise SordinoError(f"{settings.source!r} holds no examples; check the file.")
    train, test = (shape_of(split, raw.kind, settings) for split in (raw.train, raw.test or raw.train))
    if train != test:
        raise SordinoError(
            f"{settings.source!r} has training examples of {train} but test examples of {test}; "
            "save them alike, or set resize and channels."
        )
    check_memory(raw, train, settings)
    check_columns(raw, settings)
    if raw.kind != "text":
        _normalisation(raw.kind, settings).check(train[0])
    return raw, entry.name


def _read(entry: KnownSource, settings: SourceSettings) -> Raw:
    if entry.name == AT_NODES:
        raise SordinoError(
            f'[data] source = "{AT_NODES}" means rows that lie with real nodes, and none is here; set [engine] name = "flower", or name a '
            "file."
        )
    if is_held(entry.name):
        return held(entry.name)(settings)
    return EMBEDDED[entry.name] if entry.path is None else kept(entry.path, settings, FORMATS[entry.format].read)


def shape_of(split: Split, kind: Kind, settings: SourceSettings) -> tuple[int, ...]:
    """The shape of one example as it will be loaded."""
    if kind != "image":
        return split.shape
    return images.fitted_shape(split.shape, resize=settings.resize, channels=settings.channels)


def read_split(split: Split, class_names: tuple[str, ...], settings: SourceSettings) -> tuple[Array, Array]:
    """Inputs as they lie in the file, and their class numbers."""
    labels = number_labels(split.labels(), class_names, settings)
    array = split.inputs()
    refuse_mismatch(settings, inputs=len(array), labels=len(labels))
    return array, labels


def to_examples(array: Array, labels: Array, rows: Array, kind: Kind, settings: SourceSettings) -> Examples:
    """The chosen rows, and images of those alone brought to size."""
    if not np.array_equal(rows, np.arange(len(labels))):
        array, labels = array[rows], labels[rows]
    inputs = to_tensor(array, kind)
    if kind == "image":
        inputs = images.fit(inputs, resize=settings.resize, channels=settings.channels)
    return Examples(inputs=inputs, labels=torch.from_numpy(labels), normalisation=_normalisation(kind, settings))


def to_tensor(array: Array, kind: Kind) -> Tensor:
    """Inputs in the type that examples of this kind have."""
    return torch.from_numpy(np.ascontiguousarray(array.astype(_DTYPES[kind], copy=False)))


_DTYPES: Mapping[Kind, type[np.generic]] = {"image": np.uint8, "tabular": np.float32, "text": np.int64}


def drawn(count: int, seed: int, stream: int) -> Array:
    """All rows in an order that depends on the seed alone."""
    order: Array = np.random.default_rng([seed, stream]).permutation(count)
    return order


def _normalisation(kind: Kind, settings: SourceSettings) -> Normalisation:
    usual = Normalisation() if kind == "image" else IDENTITY
    return Normalisation(
        scale=usual.scale if settings.scale is None else settings.scale,
        mean=settings.mean or usual.mean,
        std=settings.std or usual.std,
    )
