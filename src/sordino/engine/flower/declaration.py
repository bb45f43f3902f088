"""What a node declares of its rows when it is asked to take part: how many, and how they become inputs. Nothing else is told."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sordino import __version__
from sordino.core import SordinoError
from sordino.data.preparation import Preparation
from sordino.engine.wire.message import Message


@dataclass(frozen=True, kw_only=True)
class Declaration:
    """Public facts about one node's rows."""

    name: str
    rows: int
    """How many it trains on."""
    held_out: int
    """How many it keeps from training, where evaluation is charged."""
    preparation: Mapping[str, Any]
    """Kind, shape, classes, columns and constants, as `data.preparation` writes them."""
    version: str = __version__

    def to_message(self) -> Message:
        return Message(content={"what": "declared", **dataclasses.asdict(self)})

    @staticmethod
    def from_message(content: Mapping[str, Any]) -> Declaration:
        """Raises `SordinoError` for what is none."""
        try:
            fields = {field.name: content[field.name] for field in dataclasses.fields(Declaration)}
            found = Declaration(**fields)
        except (KeyError, TypeError) as error:
            raise SordinoError(f"A node should declare its rows, but got something else ({error!r}).") from error
        if (
            not isinstance(found.rows, int)
            or not isinstance(found.held_out, int)
            or found.rows < 1
            or found.held_out < 0
        ):
            raise SordinoError(f"A node should declare one row or more, but got {found.rows!r}; check its data file.")
        return found


def meet_message(experiment: Mapping[str, Any], fingerprint: str) -> Message:
    """The first thing that a node hears of a run: the experiment, and which version speaks."""
    content = {"what": "meet", "version": __version__, "experiment": dict(experiment), "fingerprint": fingerprint}
    return Message(content=content)


def same_preparation(declared: Sequence[Declaration]) -> Preparation:
    """How rows become inputs, on which all nodes must agree; the first difference is named."""
    first = declared[0]
    for other in declared[1:]:
        where = first_difference(first.preparation, other.preparation)
        if where is not None:
            key, ours, theirs = where
            raise SordinoError(
                f"Nodes {first.name} and {other.name} should prepare their rows alike, but {key} is {ours!r} at {first.name} and "
                f"{theirs!r} at {other.name}; declare it in [data.options], or mend the data file."
            )
    return Preparation.from_json(dict(first.preparation))


def first_difference(ours: Any, theirs: Any, key: str = "") -> tuple[str, Any, Any] | None:
    """The first place where two JSON values differ, and what is there."""
    if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
        for name in [*ours, *(name for name in theirs if name not in ours)]:
            inner = f"{key}.{name}" if key else str(name)
            if (found := first_difference(ours.get(name), theirs.get(name), inner)) is not None:
                return found
        return None
    ours, theirs = (list(value) if isinstance(value, tuple) else value for value in (ours, theirs))
    return None if ours == theirs else (key, ours, theirs)
