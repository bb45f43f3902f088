"""From a TOML table to a checked object, with one sentence for whatever is wrong."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from sordino.core import Registry, SordinoError, unknown

T = TypeVar("T")

AtLeastOne = Annotated[int, Field(ge=1)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegativeCount = Annotated[int, Field(ge=0)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Momentum = Annotated[float, Field(ge=0, lt=1)]


def validated(kind: type[T], table: Mapping[str, Any], *, where: str) -> T:
    """Build `kind` (a dataclass or a pydantic model) from a table of settings; keys that it does not know are refused."""
    _refuse_unknown(kind, table, where)
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


def field_names(kind: type) -> list[str]:
    """What a table may set: the fields, and not what the class itself declares once for all its objects."""
    if issubclass(kind, BaseModel):
        return list(kind.model_fields)
    return [field.name for field in dataclasses.fields(kind) if field.init] if dataclasses.is_dataclass(kind) else []


def _refuse_unknown(kind: type, table: Mapping[str, Any], where: str) -> None:
    """Refuse keys that are no settings of `kind`, in this table and in those inside it."""
    known = field_names(kind)
    for key in table:
        if key not in known:
            raise SordinoError(_stranger(kind, key, where, known))
    nested = {key: value for key, value in table.items() if isinstance(value, Mapping | list | tuple)}
    annotations = get_type_hints(kind, include_extras=True) if nested else {}
    for key, value in nested.items():
        for inner, inside in _tables(annotations[key], value):
            _refuse_unknown(inner, inside, f"{where}.{key}")


def _stranger(kind: type, key: str, where: str, known: list[str]) -> str:
    if not known:
        return f"[{where}] takes no settings, because {kind.__name__} has none, but got {key}; leave it out."
    if hasattr(kind, key) and not key.startswith("_"):
        return (
            f"{key} in [{where}] is a fact about {kind.__name__} and not a setting; leave it out, "
            f"or set one of {', '.join(known)}."
        )
    return unknown(f"setting in [{where}]", key, known)


def _tables(annotation: Any, value: Any) -> Iterator[tuple[type, Mapping[str, Any]]]:
    """The tables in a value that become objects with settings of their own, each with the class it becomes."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        yield from _tables(arguments[0], value)
    elif origin in (Union, UnionType):
        found = [match for argument in arguments for match in _tables(argument, value)]
        fitting = [(kind, table) for kind, table in found if set(table) <= set(field_names(kind))]
        yield from (fitting or found)[:1]
    elif arguments and isinstance(value, list | tuple):
        for part in value:
            yield from _tables(arguments[0], part)
    elif arguments and isinstance(value, Mapping):
        for part in value.values():
            yield from _tables(arguments[-1], part)
    elif isinstance(value, Mapping) and _has_fields(annotation):
        yield annotation, value


def _has_fields(annotation: object) -> bool:
    return isinstance(annotation, type) and (dataclasses.is_dataclass(annotation) or issubclass(annotation, BaseModel))


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
