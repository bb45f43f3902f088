"""On which rows a model is evaluated: what a person may say in `[data] test`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from sordino.core import SordinoError
from sordino.settings import AtLeastOne, Positive, validated

PUBLIC_SPLIT, CHARGED = "public-split", "charged"

WAYS = (
    'name a public test source (test = { source = "..." }), declare the split public (test = "public-split"), or let '
    'evaluation be charged (test = { name = "charged", epsilon = 0.5 })'
)
"""How a person says on which rows a model may be evaluated, as the end of a sentence about [data]."""


@dataclass(frozen=True, kw_only=True)
class SetAside:
    """The source's own test split; where it has none, rows of it drawn with the seed. Either counts as public."""

    declared: bool = False
    """Whether the person said so."""


@dataclass(frozen=True, kw_only=True)
class SeparateSource:
    """The test split of another source, or all its rows where it has none; naming them here declares them public."""

    source: str
    limit: AtLeastOne | None = None
    """So many rows, drawn with the seed."""
    label_column: str | None = None
    text_column: str | None = None
    """Where the other table calls them differently."""
    alike_by_chance: bool = False
    """Whether rows may equal private ones by chance, as of two people of one age, sex and ward; copies are then not found."""


@dataclass(frozen=True, kw_only=True)
class Charged:
    """Rows that every client holds out of its own: they stay private, and what is told about them is noised and charged."""

    epsilon: Positive
    """Of all evaluations of the run together, for each client."""
    fraction: Annotated[float, Field(gt=0, lt=1)] = 0.2
    """The share of its rows that a client holds out, at least one."""


@dataclass(frozen=True, kw_only=True)
class Elsewhere:
    """No row is tested on here: a node trains on all of its own, and evaluation is somebody else's."""


EvaluationRows = SetAside | SeparateSource | Charged | Elsewhere

NOT_SAID = SetAside()
"""Where a person says nothing about test rows."""


def evaluation_rows(setting: str | Mapping[str, Any] | None) -> EvaluationRows:
    """What `[data] test` says."""
    if setting is None:
        return NOT_SAID
    table = dict(setting) if isinstance(setting, Mapping) else {"name": setting}
    if "name" not in table:
        return validated(SeparateSource, table, where="data.test")
    name = table.pop("name")
    if name == CHARGED:
        return validated(Charged, table, where="data.test")
    if name != PUBLIC_SPLIT:
        raise SordinoError(f"[data] test should be a way of evaluation, but got {name!r}; {WAYS}.")
    if table:
        raise SordinoError(
            f"[data] test = {PUBLIC_SPLIT!r} takes no settings, but got {', '.join(table)}; set test_fraction in [data.options]."
        )
    return SetAside(declared=True)
