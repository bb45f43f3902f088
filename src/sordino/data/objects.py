"""From what Python programs hold (frames, arrays, torch data sets) to what a format makes of a file."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from sordino.core import SordinoError
from sordino.data import images
from sordino.data.formats.npz import kind_of
from sordino.data.formats.table import raw_table
from sordino.data.held import Reader
from sordino.data.raw import Array, Raw, Split
from sordino.data.settings import SourceSettings
from sordino.data.table import Table
from sordino.sentences import first_line

WANTED = "a pandas or polars frame, a pair (inputs, labels) of arrays, a torch Dataset, or the path of a file"


def reader_of(given: object, what: str) -> Reader:
    """How this object is read as a data set; `what` is what sentences call it."""
    if is_frame(given):
        return lambda settings: _frame(given, what, settings)
    if isinstance(given, tuple) and len(given) == 2:
        return lambda settings: _arrays(given[0], given[1], what, settings)
    if hasattr(given, "__getitem__") and hasattr(given, "__len__") and not isinstance(given, str | bytes | np.ndarray):
        return lambda settings: _arrays(*_stacked(given, what), what, settings)
    raise SordinoError(f"{what} should be {WANTED}, but got {type(given).__name__}; convert it.")


def is_frame(given: object) -> bool:
    """Whether it has named columns: pandas' frames, polars', a Hugging Face data set, or a mapping of columns."""
    return isinstance(given, Mapping) or hasattr(given, "columns") or hasattr(given, "to_pandas")


def to_table(given: Any, what: str, settings: SourceSettings) -> Table:
    """A frame as a table, its rows numbered from the first."""
    from pandas import DataFrame

    known = given.collect() if hasattr(given, "collect") else given
    try:
        frame: DataFrame = known.to_pandas() if hasattr(known, "to_pandas") else DataFrame(known)
    except ValueError as error:
        raise SordinoError(
            f"{what} should have columns of one length ({first_line(error)}); make them agree."
        ) from error
    if frame.empty:
        raise SordinoError(f"{what} holds no rows; give at least one.")
    called = what[0].lower() + what[1:]
    return Table(frame=frame.rename(columns=str).reset_index(drop=True), file=called, dialect=settings.dialect)


def _frame(given: Any, what: str, settings: SourceSettings) -> Raw:
    return raw_table(to_table(given, what, settings), settings)


def _arrays(inputs: Any, labels: Any, what: str, settings: SourceSettings) -> Raw:
    values, targets = _array(inputs, what), _array(labels, f"The labels of {what}")
    if len(values) != len(targets):
        raise SordinoError(f"{what} has {len(values)} inputs but {len(targets)} labels; give one label for each input.")
    values = _as_bytes(values, what)
    kind = kind_of(values.shape, values.dtype, what)
    if kind == "image":
        values = images.channels_first(values)
    return Raw(
        kind=kind,
        train=Split(count=len(values), shape=values.shape[1:], labels=lambda: targets, inputs=lambda: values),
        vocabulary=settings.vocabulary if kind == "text" else 0,
    )


def _array(given: Any, what: str) -> Array:
    try:
        array: Array = np.asarray(given.detach().cpu() if hasattr(given, "detach") else given)
    except (ValueError, TypeError) as error:
        raise SordinoError(f"{what} should be an array, but rows have different shapes; make them alike.") from error
    if array.ndim == 0:
        raise SordinoError(f"{what} should be an array with one entry per example, but got {type(given).__name__}.")
    return array


def _as_bytes(values: Array, what: str) -> Array:
    """Images of real numbers from 0 to 1, as torchvision makes them, as the bytes that they were before."""
    if values.ndim not in (3, 4) or values.dtype.kind != "f":
        return values
    grey = values * 255.0
    if values.size and (grey.min() < -0.01 or grey.max() > 255.01 or np.abs(grey - grey.round()).max() > 0.01):
        raise SordinoError(
            f"{what} should have images of bytes, or of real numbers k/255 from 0 to 1, but got others; leave normalising to mean "
            "and std of Data(...), which are public constants."
        )
    return np.asarray(grey.round(), np.uint8)


def _stacked(given: Any, what: str) -> tuple[Array, Array]:
    """All items of a torch Dataset: pairs of an input and a label."""
    pairs = [_pair(given[number], number, what) for number in range(len(given))]
    if not pairs:
        raise SordinoError(f"{what} holds no examples; give at least one.")
    return _stack((one for one, _ in pairs), what), _stack((label for _, label in pairs), f"The labels of {what}")


def _pair(item: Any, number: int, what: str) -> tuple[Array, Array]:
    if not isinstance(item, tuple | list) or len(item) != 2:
        raise SordinoError(
            f"{what} should give pairs (input, label), but item {number} is a {type(item).__name__}; return two things."
        )
    return _item(item[0]), _item(item[1])


def _item(value: Any) -> Array:
    array: Array = np.asarray(value.detach().cpu() if hasattr(value, "detach") else value)
    return array


def _stack(arrays: Iterable[Array], what: str) -> Array:
    try:
        return np.stack(list(arrays))
    except ValueError as error:
        raise SordinoError(f"{what} has entries of different shapes; make them alike, or resize images.") from error


def with_owners(reader: Reader, column: str, owners: Sequence[Any]) -> Reader:
    """The same data set with a column that says whose each row is."""

    def read(settings: SourceSettings) -> Raw:
        raw = reader(settings)
        values = _array(owners, "owners")
        if len(values) != raw.train.count:
            raise SordinoError(
                f"owners should have one value for each of the {raw.train.count} rows, but got {len(values)}; make them agree."
            )
        return dataclasses.replace(raw, columns={**raw.columns, column: values})

    return read
