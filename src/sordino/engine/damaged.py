"""Reading a run record that may be damaged: whatever is wrong with a file gets one sentence."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import NoneType
from typing import Any

from sordino.core import SordinoError
from sordino.sentences import first_line, shown

Needed = Mapping[str, type | tuple[type, ...]]
"""Keys that an object must have, and of which types their values are."""

NUMBER = (int, float)
MAYBE_NUMBER = (int, float, NoneType)


def read_json_object(path: Path, needed: Needed, *, advice: str) -> dict[str, Any]:
    """The object in a JSON file, with at least these keys; `advice` says what a person can do about a damaged one."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise SordinoError(f"{path} cannot be read ({first_line(error)}); {advice}.") from error
    return checked_object(content, needed, what=str(path), advice=advice)


def read_json_lines(path: Path, needed: Needed, *, advice: str) -> list[dict[str, Any]]:
    """The objects in a file of JSON lines; a last line that was cut off does not count, any other damage is refused."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        raise SordinoError(f"{path} cannot be read ({first_line(error)}); {advice}.") from error
    rows = []
    for number, line in enumerate(text[: text.rfind("\n") + 1].split("\n")[:-1], start=1):
        what = f"Line {number} of {path}"
        try:
            content = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise SordinoError(f"{what} cannot be read ({first_line(error)}); {advice}.") from error
        rows.append(checked_object(content, needed, what=what, advice=advice))
    return rows


def checked_object(content: object, needed: Needed, *, what: str, advice: str) -> dict[str, Any]:
    """`content`, if it is an object with these keys and types."""
    if not isinstance(content, dict):
        raise SordinoError(f"{what} should hold a JSON object, but got {shown(content)}; {advice}.")
    for key, types in needed.items():
        value = content.get(key)
        if key not in content or not isinstance(value, types) or (isinstance(value, bool) and types is not bool):
            raise SordinoError(
                f"{what} is damaged: its {key!r} is {shown(value) if key in content else 'missing'}; {advice}."
            )
    return content
