"""From a TOML table to a checked object, with one sentence for whatever is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

from pydantic import Field, TypeAdapter, ValidationError

from sordino.core import Registry, SordinoError, unknown

T = TypeVar("T")

AtLeastOne = Annotated[int, Field(ge=1)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegativeCount = Annotated[int, Field(ge=0)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Momentum = Annotated[float, Field(ge=0, lt=1)]


def validated(kind: type[T], table: Mapping[str, Any], *, where: str) -> T:
    """Build `kind` (a dataclass or a pydantic model) from a table of settings."""
    for key in table:
        if key not in field_names(kind):
            raise SordinoError(unknown(f"setting in [{where}]", key, field_names(kind)))
    try:
        return TypeAdapter(kind).validate_python(dict(table))
    except ValidationError as error:
        raise SordinoError(sentence(error, where=where, known=field_names(kind))) from error


def member(registry: Registry[Any], table: Mapping[str, Any], *, where: str) -> Any:
    """Build the member of an axis that `table` names, from the table's other entries."""
    rest = dict(table)
    name = rest.pop("name", None)
    if not isinstance(name, str):
        names = ", ".join(member.name for member in registry)
        raise SordinoError(f"[{where}] needs a name, one of {names}, but {name!r} came.")
    return validated(registry[name], rest, where=where)


def field_names(kind: object) -> list[str]:
    fields = getattr(kind, "model_fields", None) or getattr(kind, "__dataclass_fields__", {})
    return list(fields)


def sentence(error: ValidationError, *, where: str, known: list[str]) -> str:
    """The first thing that is wrong, as a sentence a person can act on."""
    first = error.errors()[0]
    path = [str(part) for part in first["loc"]]
    key = path[-1] if path else ""
    place = ".".join([where, *path[:-1]] if where else path[:-1])
    if first["type"] in {"extra_forbidden", "unexpected_keyword_argument"}:
        return unknown(f"setting in [{place}]" if place else "section", key, known)
    if first["type"] in {"missing", "missing_keyword_only_argument", "missing_argument"}:
        return f"[{place}] needs {key}, which is missing; add it to the file."
    message = first["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
    expected = message if first["type"] == "value_error" else f"should be {message}"
    shown = f"{key} " if key else ""
    return f"In [{place}], {shown}{expected}, but {first['input']!r} came."
