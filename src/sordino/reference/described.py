"""The settings of a class: name, type, default, and the words that stand below the field."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from sordino.settings import LARGEST

_PLAIN = {
    int: "whole number",
    float: "number",
    str: "text",
    bool: "true or false",
    dict: "table",
    tuple: "list",
    list: "list",
}
_BOUNDS = {"gt": "above", "ge": "at least", "lt": "below", "le": "at most"}


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One setting, as a line of a table."""

    name: str
    type: str
    default: str
    meaning: str
    unused: bool = False
    """Whether the class has it from another one and makes no use of it."""


def settings_of(kind: type) -> list[Setting]:
    """Every setting of a part or of a section, in its order."""
    hints, words = get_type_hints(kind, include_extras=True), _docstrings(kind)
    unused: tuple[str, ...] = getattr(kind, "unused", ())
    return [
        Setting(
            name=name,
            type=type_words(hints[name], _constraints(kind, name)),
            default=default,
            meaning="Does nothing here." if name in unused else words.get(name, ""),
            unused=name in unused,
        )
        for name, default in _defaults(kind)
    ]


def _defaults(kind: type) -> Iterator[tuple[str, str]]:
    if issubclass(kind, BaseModel):
        for name, info in kind.model_fields.items():
            yield name, "needed" if info.is_required() else _written(info.get_default(call_default_factory=True))
    elif dataclasses.is_dataclass(kind):
        for one in (one for one in dataclasses.fields(kind) if one.init):
            if one.default_factory is not dataclasses.MISSING:
                yield one.name, _written(one.default_factory())
            else:
                yield one.name, "needed" if one.default is dataclasses.MISSING else _written(one.default)


def _written(value: Any) -> str:
    """A value as TOML writes it."""
    if value is None or value is PydanticUndefined:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(_written, value))}]"
    if isinstance(value, dict):
        inside = ", ".join(f"{key} = {_written(one)}" for key, one in value.items())
        return f"{{ {inside} }}" if inside else "{}"
    return (
        "its own"
        if dataclasses.is_dataclass(value) or isinstance(value, BaseModel)
        else f"{value:g}"
        if isinstance(value, float)
        else str(value)
    )


def _constraints(kind: type, name: str) -> list[Any]:
    return list(kind.model_fields[name].metadata) if issubclass(kind, BaseModel) else []


def type_words(annotation: Any, metadata: list[Any] | None = None) -> str:
    """A type in words, with its bounds."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return type_words(arguments[0], [*(metadata or []), *arguments[1:]])
    if origin is Literal:
        return " or ".join(_written(one) for one in arguments)
    if origin in (Union, UnionType):
        return " or ".join(dict.fromkeys(type_words(one, metadata) for one in arguments if one is not NoneType))
    bounds = _bounds(metadata or [])
    if origin in (tuple, list):
        return f"list of {type_words(arguments[0])}s"
    plain = _PLAIN.get(origin or annotation)
    return (plain or "table") + (f" {bounds}" if bounds and plain in ("whole number", "number") else "")


def _bounds(metadata: list[Any]) -> str:
    found = [part for one in metadata for part in (one.metadata if isinstance(one, FieldInfo) else [one])]
    limits = [(words, getattr(one, name)) for one in found for name, words in _BOUNDS.items() if hasattr(one, name)]
    said = [f"{words} {limit:g}" for words, limit in limits if limit != LARGEST]
    return " and ".join(dict.fromkeys(said))


def _docstrings(kind: type) -> dict[str, str]:
    """The text that stands right below each field, in the class or the nearest one that it inherits from."""
    return {name: text for one in reversed(kind.__mro__) for name, text in _own_docstrings(one).items()}


@lru_cache(maxsize=1024)
def _own_docstrings(kind: Any) -> Mapping[str, str]:
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(kind)))
    except (OSError, TypeError, SyntaxError):
        return {}
    body = tree.body[0].body if isinstance(tree.body[0], ast.ClassDef) else []
    return {
        field.target.id: " ".join(text.value.value.split())
        for field, text in pairwise(body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }
