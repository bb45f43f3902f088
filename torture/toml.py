"""Tables as TOML text, however strange their keys and values are."""

from __future__ import annotations

import json
import math
import re
from typing import Any

Table = dict[str, Any]

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def to_toml(table: Table) -> str:
    """A table as a file: plain values first, then one `[section]` for each inner table."""
    plain = [f"{_key(key)} = {_value(value)}" for key, value in table.items() if not isinstance(value, dict)]
    sections = [
        "\n".join([f"[{_key(key)}]", *(f"{_key(name)} = {_value(inner)}" for name, inner in value.items())])
        for key, value in table.items()
        if isinstance(value, dict)
    ]
    return "\n".join([*plain, *sections]) + "\n"


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _text(key)


def _value(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case float() if not math.isfinite(value):
            return str(value)
        case dict():
            return "{ " + ", ".join(f"{_key(key)} = {_value(inner)}" for key, inner in value.items()) + " }"
        case list() | tuple():
            return "[" + ", ".join(map(_value, value)) + "]"
        case str():
            return _text(value)
    return repr(value)


def _text(text: str) -> str:
    """TOML's basic strings have JSON's escapes; it wants DEL escaped as well."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
