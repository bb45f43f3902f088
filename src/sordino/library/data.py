"""Data of a Python program as the `[data]` section of an experiment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sordino.core import SordinoError, Visibility
from sordino.data.held import PREFIX, Reader
from sordino.data.objects import reader_of, with_owners

TRAIN, TEST = f"{PREFIX}train", f"{PREFIX}test"
OWNERS = "owner"
"""What the column of an array's clients is called."""


@dataclass(frozen=True, eq=False)
class Data:
    """Rows to learn from, whose they are, and other rows to test on.

    Args:
        train: a pandas or polars frame, a pair (inputs, labels) of arrays or tensors, a torch Dataset of such pairs, or the path
            or name of a data set.
        label: of a frame, the column to learn.
        client: of a frame, the column that says whose a row is; one client is made of each of its values.
        owners: of arrays, whose each row is, one value a row.
        clients: how many simulated clients rows are dealt out to, where neither `client` nor `owners` says it.
        partition: how they are dealt out: a name such as "iid", or a table such as {"name": "dirichlet", "alpha": 0.5}.
        test: other rows, in the same form, which are declared public; "public-split" sets a fifth of `train` aside and declares it
            public; {"name": "charged", "epsilon": 0.5} keeps test rows private and pays for each figure.
        alike_by_chance: says that test rows which equal a training row do so because the table is coarse.
        columns: of a frame, what each column holds, with public bounds: docs/data.md describes them.
        classes: the names of all classes, or how many there are.
        target: where a number is learnt, its public bounds: {"kind": "number", "low": 0, "high": 25}.
        visibility: "private", unless the rows may be known to all.
        options: other settings of [data.options], such as {"resize": 28}.

    Example:
        `Data(frame, label="outcome", client="hospital", columns={"age": {"kind": "number", "low": 0, "high": 110}})`
    """

    train: Any
    label: str | None = None
    client: str | None = None
    owners: Sequence[Any] | None = None
    clients: int = 1
    partition: str | Mapping[str, Any] | None = None
    test: Any = None
    alike_by_chance: bool = False
    columns: Mapping[str, Any] | Sequence[str] | None = None
    classes: Sequence[str] | int | None = None
    target: Mapping[str, Any] | None = None
    visibility: Visibility = "private"
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.client is not None and self.owners is not None:
            raise SordinoError(
                "Data takes client (a column's name) or owners (one value a row), but got both; keep one."
            )

    def table(self) -> dict[str, Any]:
        """The section as a file would have it; objects go by the names under which `readers` has them."""
        return {
            "source": str(self.train) if _is_named(self.train) else TRAIN,
            "visibility": self.visibility,
            "clients": self.clients,
            **({} if self.partition is None else {"partition": _plain(self.partition)}),
            **({} if self.test is None else {"test": self._test}),
            "options": {**self._said, **self.options},
        }

    def readers(self) -> dict[str, Reader]:
        """How the objects among the data are read, by name."""
        found = {}
        if not _is_named(self.train):
            reader = reader_of(self.train, "The training data")
            found[TRAIN] = reader if self.owners is None else with_owners(reader, OWNERS, self.owners)
        if self.test is not None and not _is_said(self.test) and not _is_named(self.test):
            found[TEST] = reader_of(self.test, "The test data")
        return found

    @property
    def _test(self) -> Any:
        if _is_said(self.test):
            return self.test if isinstance(self.test, str) else dict(self.test)
        named = {"source": str(self.test) if _is_named(self.test) else TEST}
        return {**named, "alike_by_chance": True} if self.alike_by_chance else named

    @property
    def _said(self) -> dict[str, Any]:
        columns = dict(self.columns) if isinstance(self.columns, Mapping) else self.columns
        classes = list(self.classes) if isinstance(self.classes, Sequence) else self.classes
        said = {
            "label_column": self.label,
            "client_column": OWNERS if self.owners is not None else self.client,
            "columns": list(columns) if isinstance(columns, Sequence) else columns,
            "classes": classes,
            "target": None if self.target is None else dict(self.target),
        }
        return {name: value for name, value in said.items() if value is not None}


def _plain(partition: str | Mapping[str, Any]) -> str | dict[str, Any]:
    return partition if isinstance(partition, str) else dict(partition)


def _is_named(given: object) -> bool:
    return isinstance(given, str | Path)


def _is_said(test: object) -> bool:
    """Whether it is a setting of [data] test and no data set."""
    return (
        test == "public-split"
        if isinstance(test, str)
        else isinstance(test, Mapping) and bool({"name", "source"} & set(test))
    )
