"""From a TOML table to a checked object, with one sentence for whatever is wrong."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from sordino.core import SordinoError, unknown
from sordino.registry import Registry
from sordino.sentences import DECORATOR, first_line, shown

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

T = TypeVar("T")

LARGEST = 1e30
"""Of numbers that multiply tensors: 32-bit floats end at 3e38."""
LARGEST_SCALE = 1e12
"""Of clips and multipliers: noise and clipped sums then stay within what 32-bit floats tell apart from zero and infinity."""

AtLeastOne = Annotated[int, Field(ge=1)]
Positive = Annotated[float, Field(gt=0, le=LARGEST, allow_inf_nan=False)]
NotNegativeCount = Annotated[int, Field(ge=0)]
NotNegative = Annotated[float, Field(ge=0, le=LARGEST, allow_inf_nan=False)]
Scale = Annotated[float, Field(ge=1 / LARGEST_SCALE, le=LARGEST_SCALE)]
"""Of clips, and of whatever noise is measured by."""
Momentum = Annotated[float, Field(ge=0, lt=1)]
Share = Annotated[float, Field(gt=0, le=1)]


def validated(kind: type[T], table: Mapping[str, Any], *, where: str) -> T:
    """Build `kind` (a dataclass or a pydantic model) from a table of settings; `where` is its section, "" for a whole file.

    Types are those of TOML: a whole number may stand for a real one and a list for a tuple, but no word and no true or false
    stands for a number. No number is NaN or infinite.
    """
    if not isinstance(table, Mapping):
        raise SordinoError(f"{_section(where)} should be a table of settings, but got {shown(table)}.")
    _refuse_plain_class(kind, where)
    _refuse_unknown(kind, table, where)
    _refuse_strange(table, where=where)
    try:
        made: T = _adapter(cast("Any", kind)).validate_json(json.dumps(table, default=dict), strict=True)
        return made
    except ValidationError as error:
        raise SordinoError(sentence(error, table, where=where)) from error
    except SordinoError as error:
        if f"[{where.partition('.')[0]}" in str(error) or not where:
            raise
        raise SordinoError(_inside(str(error), where)) from error


@lru_cache(maxsize=512)
def _adapter(kind: Any) -> TypeAdapter[Any]:
    """Made once for each class, because that takes longer than all else that is done to a table."""
    return TypeAdapter(kind)


def _inside(sentence: str, where: str) -> str:
    """A sentence about a table inside this section, with the section's name before the table's."""
    for start in ("In [", "["):
        if sentence.startswith(start):
            return f"{start}{where}.{sentence.removeprefix(start)}"
    return f"In [{where}]: {sentence}"


def member(registry: Registry[Any], table: Mapping[str, Any], *, where: str) -> Any:
    """Build the member of an axis that `table` names, from the table's other entries."""
    rest = dict(table)
    name = rest.pop("name", None)
    if not isinstance(name, str):
        names = ", ".join(member.name for member in registry)
        raise SordinoError(f"[{where}] needs a name, one of {names}, but got {shown(name)}.")
    return validated(registry[name], rest, where=where)


def field_names(kind: type) -> list[str]:
    """What a table may set: the fields, and not what the class itself declares once for all its objects."""
    if issubclass(kind, BaseModel):
        return list(kind.model_fields)
    return [field.name for field in dataclasses.fields(kind) if field.init] if dataclasses.is_dataclass(kind) else []


def _refuse_plain_class(kind: type, where: str) -> None:
    """Refuse a class that does not say which settings it has; one that it inherits from may, but knows nothing of new ones."""
    if not issubclass(kind, BaseModel) and "__dataclass_fields__" not in vars(kind):
        raise SordinoError(
            f"{_section(where)} names {kind.__name__}, which must be a dataclass, whose fields are its settings, but is none; write "
            f"{DECORATOR} above the class."
        )


def _refuse_unknown(kind: type, table: Mapping[str, Any], where: str) -> None:
    """Refuse keys that are no settings of `kind`, in this table and in those inside it."""
    known = field_names(kind)
    for key in table:
        if key not in known:
            raise SordinoError(_stranger(kind, str(key), where, known))
    nested = {key: value for key, value in table.items() if isinstance(value, Mapping | list | tuple)}
    annotations = get_type_hints(kind, include_extras=True) if nested else {}
    for key, value in nested.items():
        for inner, inside in _tables(annotations[key], value):
            _refuse_unknown(inner, inside, f"{where}.{key}" if where else key)


def _stranger(kind: type, key: str, where: str, known: list[str]) -> str:
    if not known:
        return f"[{where}] takes no settings, because {kind.__name__} has none, but got {key}; leave it out."
    if hasattr(kind, key) and not key.startswith("_") and not issubclass(kind, BaseModel):
        return (
            f"{key} in {_section(where)} is a fact about {kind.__name__} and not a setting; leave it out, "
            f"or set one of {', '.join(known)}."
        )
    return unknown(f"setting in [{where}]" if where else "section or setting", key, known)


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


def not_toml(path: Path, error: Exception) -> str:
    """The sentence for a file that cannot be parsed, with the line that the parser names."""
    said = first_line(error)
    place = re.fullmatch(r"(.*) \(at line (\d+), column \d+\)", said)
    if place is None:
        return f"{shown(str(path))} is not valid TOML in UTF-8: {said}; correct it, or save it as UTF-8."
    line = path.read_text(encoding="utf-8").splitlines()[int(place[2]) - 1].strip()
    advice = "write key = value, text in quotes, decimals with a point, and true or false in small letters"
    if place[1].startswith("Cannot"):
        advice = "it says something a second time, so keep one of the two"
    return f"Line {place[2]} of {shown(str(path))}, {shown(line)}, is not valid TOML in UTF-8 ({place[1]}); {advice}."


def _has_fields(annotation: object) -> bool:
    return isinstance(annotation, type) and (dataclasses.is_dataclass(annotation) or issubclass(annotation, BaseModel))


def sentence(error: ValidationError, table: Mapping[str, Any], *, where: str) -> str:
    """The first thing that is wrong, as a sentence a person can act on."""
    errors = error.errors(include_url=False)
    first = errors[0]
    if first["type"] in {"missing", "missing_keyword_only_argument", "missing_argument"}:
        if isinstance(first["loc"][-1], int):
            return _too_short(errors, table, where=where)
        *outer, key = map(str, first["loc"])
        return f"{_section('.'.join([where, *outer] if where else outer))} needs {key}, which is missing; add it to the file."
    place = _place(table, first["loc"])
    expected = " or ".join(dict.fromkeys(_expected(one) for one in errors if _place(table, one["loc"]) == place))
    verb = "" if first["type"] == "value_error" else "should be "
    return f"{_subject(place, where=where)} {verb}{expected}, but got {shown(_value(table, place))}."


def _too_short(errors: Sequence[ErrorDetails], table: Mapping[str, Any], *, where: str) -> str:
    """The sentence for a list whose last values are missing."""
    *outer, _ = errors[0]["loc"]
    lacking = [one["loc"][-1] for one in errors if list(one["loc"][:-1]) == outer]
    count = 1 + max(number for number in lacking if isinstance(number, int))
    place = _place(table, outer)
    return f"{_subject(place, where=where)} should be a list of {count} values, but got {shown(_value(table, place))}."


_TABLES = {"model_type", "model_attributes_type", "dataclass_type", "dict_type", "mapping_type"}
_LISTS = {"tuple_type", "list_type"}
_LONG_NUMBER = re.compile(r"\b(?:\d{10,}|0\.0{5,}\d+)\b")
_DEEPEST = 16
_LARGEST_INTEGER = 2**63 - 1
"""Integers of TOML have 64 bits."""


def _expected(error: ErrorDetails) -> str:
    if error["type"] in _TABLES:
        return "a table of settings"
    if error["type"] in _LISTS:
        return "a list"
    if error["type"] == "too_long" and "max_length" in error.get("ctx", {}):
        return f"a list of {error['ctx']['max_length']} values"
    told = error["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
    return _LONG_NUMBER.sub(lambda found: f"{float(found[0]):g}", told)


def _place(table: object, location: Sequence[int | str]) -> tuple[int | str, ...]:
    """The part of a location that is in the table: it may also name the member of a union that was tried."""
    place: list[int | str] = []
    for step in location:
        here = _value(table, place)
        if (isinstance(here, Mapping) and step in here) or (
            isinstance(here, list | tuple) and step in range(len(here))
        ):
            place.append(step)
    return tuple(place)


def _value(table: Any, place: Sequence[int | str]) -> Any:
    for step in place:
        table = table[step]
    return table


def _subject(place: Sequence[int | str], *, where: str) -> str:
    """What a sentence is about: `In [section], key`, or the section itself."""
    names = [where] if where else []
    for step in place:
        if isinstance(step, int):
            names[-1] += f"[{step}]"
        else:
            names.append(step)
    if len(names) < 2:
        return _section(where) if where or not names else f"At the top of the file, {names[0]}"
    return f"In [{'.'.join(names[:-1])}], {names[-1]}"


def _section(where: str) -> str:
    return f"[{where}]" if where else "The experiment"


def _refuse_strange(value: object, place: tuple[int | str, ...] = (), *, where: str) -> None:
    """Refuse what no setting can be: NaN, infinities, integers of more than 64 bits, dates, and text that is not Unicode."""
    if len(place) > _DEEPEST:
        raise SordinoError(
            f"{_subject(place[:1], where=where)} holds tables or lists {_DEEPEST} deep; no setting needs so many."
        )
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if not isinstance(key, str) or _not_a_setting(key):
                raise SordinoError(
                    f"{_subject(place, where=where)} should have keys of plain text, but got {shown(key)}."
                )
            _refuse_strange(inner, (*place, key), where=where)
    elif isinstance(value, list | tuple):
        for number, inner in enumerate(value):
            _refuse_strange(inner, (*place, number), where=where)
    elif (expected := _not_a_setting(value)) is not None:
        raise SordinoError(f"{_subject(place, where=where)} should be {expected}, but got {shown(value)}.")


def _not_a_setting(value: object) -> str | None:
    if value is None or isinstance(value, bool):
        return None
    if isinstance(value, float):
        return None if math.isfinite(value) else "a finite number"
    if isinstance(value, int):
        return None if abs(value) <= _LARGEST_INTEGER else "an integer of at most 64 bits"
    if isinstance(value, str):
        return (
            None if value.isascii() or not any("\ud800" <= one <= "\udfff" for one in value) else "valid Unicode text"
        )
    return "a number, text, true or false, a list or a table"
