"""What can be wrong with a data set, checked where no example is read as well as where all are."""

from __future__ import annotations

import math
from collections.abc import Mapping

from sordino.core import SordinoError
from sordino.data.limits import refuse_larger
from sordino.data.raw import Array, Raw
from sordino.data.settings import Kind, SourceSettings


def check_labels(where: str, labels: Array, classes: int) -> None:
    """Refuse a split without examples, or with labels that are no class numbers; targets on a scale were checked when read."""
    if len(labels) == 0:
        raise SordinoError(f"{where} is empty; check the file and test_fraction.")
    if labels.dtype.kind == "f":
        return
    check_range(where, "a label", labels, classes, "mend the labels or declare classes")


def check_range(where: str, what: str, values: Array, stop: int, advice: str) -> None:
    low, high = int(values.min()), int(values.max())
    if low < 0 or high >= stop:
        raise SordinoError(f"{where} has {what} {low if low < 0 else high}, outside 0 to {stop - 1}; {advice}.")


def check_columns(raw: Raw, settings: SourceSettings) -> None:
    """Refuse a client column that does not name one client for every training row."""
    for name, values in raw.columns.items():
        if values.ndim != 1 or len(values) != raw.train.count:
            raise SordinoError(
                f"The client column {name!r} of {settings.source!r} must have one value for each of {raw.train.count} training "
                f"rows, but has shape {values.shape}."
            )
        missing = values != values if values.dtype.kind in "fOMm" else values[:0]  # noqa: PLR0124
        if missing.any():
            raise SordinoError(
                f"The client column {name!r} of {settings.source!r} has no value in row {int(missing.argmax()) + 1}; fill or drop "
                "such rows."
            )


def check_memory(raw: Raw, shape: tuple[int, ...], settings: SourceSettings) -> None:
    """Refuse a set whose examples, brought to this shape, no memory holds."""
    rows = min(raw.train.count, settings.limit or raw.train.count)
    refuse_larger(settings.source, rows * math.prod(shape) * _BYTES[raw.kind])


_BYTES: Mapping[Kind, int] = {"image": 1, "tabular": 4, "text": 8}


def refuse_mismatch(settings: SourceSettings, *, inputs: int, labels: int) -> None:
    if inputs != labels:
        raise SordinoError(f"{settings.source!r} has {inputs} inputs but {labels} labels; each input needs one label.")
