"""Cases: settings that belong together, such as a method and what suits it, as `[[case]]` tables of a sweep's file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sordino.core import SordinoError
from sordino.experiment import MEMBERS, Table
from sordino.sentences import shown


@dataclass(frozen=True, kw_only=True)
class Case:
    """A name, and the settings that it changes in the rest of the file."""

    name: str
    settings: Table


def take_cases(table: Table) -> list[Case]:
    """Take the cases out of a file's table; without a name of its own, a case goes by its method's."""
    tables = table.pop("case", [])
    if not isinstance(tables, list) or not all(isinstance(one, dict) for one in tables):
        raise SordinoError(
            f"[[case]] should be tables of settings, but got {shown(tables)}; write [[case]] above each."
        )
    cases = [_case(one, number) for number, one in enumerate(tables, start=1)]
    for name, count in Counter(case.name for case in cases).items():
        if count > 1:
            raise SordinoError(f"{count} [[case]] tables are called {shown(name)}; give each a name of its own.")
    return cases


def _case(table: Table, number: int) -> Case:
    settings = {key: value for key, value in table.items() if key != "name"}
    method = settings.get("method")
    name = table.get("name", method.get("name") if isinstance(method, dict) else method)
    if not isinstance(name, str) or not name.strip():
        raise SordinoError(
            f"[[case]] number {number} needs a name or a method, but got {shown(name)}; add name = ... to it."
        )
    return Case(name=name, settings=settings)


def merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> Table:
    """`base` with the changes of a case: tables are joined key by key, and one that has a name takes the other's place."""
    result = dict(base)
    for key, value in changes.items():
        before = result.get(key)
        if key in MEMBERS and isinstance(before, str):
            before = {"name": before}
        if isinstance(value, Mapping) and isinstance(before, Mapping) and "name" not in value:
            result[key] = merged(before, value)
        else:
            result[key] = value
    return result
