"""What a person says about a data set before it is loaded."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from sordino.core import SordinoError, Visibility

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

    Everything here is public. `classes`, `class_names` and `categories` may be left out, in which case they are taken
    from the data; whoever leaves them out declares that they, like the number of examples, may be known to all.
    `mean`, `std` and `scale` are constants of the person's choosing and are never computed from the data.
    """

    source: str
    visibility: Visibility
    classes: int | None = None
    class_names: tuple[str, ...] = ()
    test_fraction: float = 0.2
    limit: int | None = None
    test_limit: int | None = None
    resize: int | None = None
    channels: int | None = None
    scale: float | None = None
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    label_column: str = "label"
    client_column: str | None = None
    text_column: str | None = None
    columns: tuple[str, ...] = ()
    categories: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    vocabulary: int = 8192
    length: int = 32

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
            value = getattr(self, name)
            if value is not None and not least <= value <= most:
                raise SordinoError(f"{name} must be at least {least} and at most {most}, but got {value}.")
        if self.class_names and self.classes not in (None, len(self.class_names)):
            raise SordinoError(
                f"classes is {self.classes} but class_names lists {len(self.class_names)}; make them agree."
            )
        self._check_normalisation()

    def _check_normalisation(self) -> None:
        constants = (*self.mean, *self.std, 1.0 if self.scale is None else self.scale)
        if not all(map(math.isfinite, constants)) or not all(std > 0 for std in self.std) or self.scale == 0:
            raise SordinoError(
                "scale, mean and std must be finite, std above zero and scale not zero; mend the settings."
            )


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
