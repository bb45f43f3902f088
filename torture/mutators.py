"""Mutations of experiment files: of single values and keys, of whole sections, of choices on axes, and of the text itself."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torture.bases import BROKEN
from torture.toml import Table, to_toml

STRANGE: tuple[Any, ...] = (
    *(-1, 0, 1, 2, 3, 7, 2**31, 2**63 - 1, 2**64, 10**30, -(2**63)),
    *(0.0, -0.0, 0.5, 1.0, 1.5, -2.5, 1e-308, 5e-324, 1e308, 1e-12, 1e12),
    *(float("nan"), float("inf"), float("-inf"), True, False),
    *("", " ", "x", "0", "8", "true", "nan", "none", "null", "auto", "full", "x" * 5000, "a\nb", "a\tb", "a\x00b"),
    *("ε", "δ≤1", "数字", "\u202edigits", "digits\u200b", "e\u0301", "🙂", "\ufeff", "\u007f", "I\u0307"),
    *("../../x", "/", ".", "~", "/dev/null", "C:\\x", "file:///x", "a/b", "a:b", "os:nothing", "%s", "{}", "$HOME"),
    *([], [0], [-1], [1, 2, 3], ["a"], [[]], [True], [float("nan")], [10**9], {}, {"name": "x"}, {"a": {"b": 1}}),
)
"""Values that a person, a script or a broken editor may write where another one belongs."""

Path_ = tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """A mutated file: its table, where it still is one, and its bytes."""

    number: int
    table: Table | None
    content: bytes
    how: tuple[str, ...]


class Mutators:
    """Makes the same mutants for the same seed."""

    def __init__(self, bases: Sequence[Table], axes: Mapping[str, Sequence[str]], data: Path) -> None:
        self._bases, self._data = bases, data
        self._members = sorted({name for names in axes.values() for name in names})
        self._axes = {axis: list(names) for axis, names in axes.items()}
        self._ways: list[tuple[int, Callable[[Table, random.Random], str]]] = [
            (30, self._strange_value),
            (16, self._scaled_number),
            (10, self._other_type),
            (10, self._member),
            (8, self._missing_key),
            (4, self._missing_section),
            (8, self._unknown_key),
            (4, self._swapped_values),
            (3, self._moved_key),
            (2, self._section_for_value),
            (2, self._other_base),
            (1, self._broken_file),
        ]

    def mutant(self, number: int, chance: random.Random) -> Mutant:
        """One to three mutations of one base; one mutant in fifteen has its text spoilt as well."""
        table = copy.deepcopy(chance.choice(self._bases))
        weights = [weight for weight, _ in self._ways]
        times = chance.choices([1, 2, 3], [70, 20, 10])[0]
        ways = [way for _, way in chance.choices(self._ways, weights, k=times)]
        how = tuple(way(table, chance) for way in ways)
        content = to_toml(table).encode("utf-8", "surrogatepass")
        if chance.random() < 1 / 15:
            spoilt, what = _spoil(content, chance)
            return Mutant(number=number, table=None, content=spoilt, how=(*how, what))
        return Mutant(number=number, table=table, content=content, how=how)

    def _strange_value(self, table: Table, chance: random.Random) -> str:
        path, value = _some_leaf(table, chance), copy.deepcopy(chance.choice(STRANGE))
        _put(table, path, value)
        return f"{'.'.join(path)} = {str(value)[:40]!r}"

    def _scaled_number(self, table: Table, chance: random.Random) -> str:
        numbers = [path for path, value in _leaves(table) if isinstance(value, int | float)]
        path = chance.choice(numbers or [("rounds",)])
        value = _get(table, path) or 1
        factor = chance.choice([-1, 0, 2, 10, 1000, 1e6, 1e-3, 1e-6, 0.37])
        changed = value * factor
        if isinstance(value, int) and not isinstance(value, bool) and chance.random() < 0.7:
            changed = int(changed)
        _put(table, path, changed)
        return f"{'.'.join(path)} times {factor}"

    def _other_type(self, table: Table, chance: random.Random) -> str:
        path = _some_leaf(table, chance)
        value = _get(table, path)
        changed = chance.choice([str(value), [value], {"value": value}, {"name": value}, bool(value), [value, value]])
        _put(table, path, changed)
        return f"{'.'.join(path)} as {type(changed).__name__}"

    def _member(self, table: Table, chance: random.Random) -> str:
        """A choice of an axis, of the right one or of another."""
        named = [path for path, _ in _leaves(table) if path[-1] in {"name", "sampler", "mechanism"} and len(path) > 1]
        path = chance.choice(named or [("method", "name")])
        axis = {"partition": "partitioner"}.get(path[-2] if path[-1] == "name" else path[-1], path[-2])
        fitting = self._axes.get(axis, self._members)
        name = chance.choice(fitting if chance.random() < 0.6 else self._members)
        _put(table, path, name)
        return f"{'.'.join(path)} = {name!r}"

    def _missing_key(self, table: Table, chance: random.Random) -> str:
        path = _some_leaf(table, chance)
        del _get(table, path[:-1])[path[-1]]
        return f"without {'.'.join(path)}"

    def _missing_section(self, table: Table, chance: random.Random) -> str:
        key = chance.choice(list(table))
        del table[key]
        return f"without [{key}]"

    def _unknown_key(self, table: Table, chance: random.Random) -> str:
        path = _some_leaf(table, chance)
        typed = chance.choice(
            [
                path[-1] + "s",
                path[-1][:-1] or "k",
                path[-1].upper(),
                path[-1].replace("_", "-") + " ",
                "",
                "ε",
                "x" * 300,
                "__class__",
                "model_config",
                "self",
            ]
        )
        _get(table, path[:-1])[typed] = copy.deepcopy(chance.choice([_get(table, path), chance.choice(STRANGE)]))
        return f"{'.'.join(path[:-1])} has a key {typed[:40]!r}"

    def _swapped_values(self, table: Table, chance: random.Random) -> str:
        one, other = _some_leaf(table, chance), _some_leaf(table, chance)
        first, second = _get(table, one), _get(table, other)
        _put(table, one, second)
        _put(table, other, first)
        return f"{'.'.join(one)} and {'.'.join(other)} swapped"

    def _moved_key(self, table: Table, chance: random.Random) -> str:
        path = _some_leaf(table, chance)
        sections = [key for key, value in table.items() if isinstance(value, dict)]
        value = _get(table, path[:-1]).pop(path[-1])
        if not sections:
            return f"without {'.'.join(path)}"
        section = chance.choice(sections)
        table[section][path[-1]] = value
        return f"{'.'.join(path)} moved to [{section}]"

    def _section_for_value(self, table: Table, chance: random.Random) -> str:
        sections = [key for key, value in table.items() if isinstance(value, dict)]
        if not sections:
            return "nothing"
        section = chance.choice(sections)
        table[section] = copy.deepcopy(chance.choice(STRANGE))
        return f"{section} is no section"

    def _other_base(self, table: Table, chance: random.Random) -> str:
        """One section of another experiment."""
        other = chance.choice(self._bases)
        section = chance.choice([key for key, value in other.items() if isinstance(value, dict)])
        table[section] = copy.deepcopy(other[section])
        return f"[{section}] of another experiment"

    def _broken_file(self, table: Table, chance: random.Random) -> str:
        name = chance.choice(BROKEN)
        if not isinstance(table.get("data"), dict):
            return "nothing"
        table["data"]["source"] = str(self._data / name)
        return f"data.source = {name}"


def _spoil(content: bytes, chance: random.Random) -> tuple[bytes, str]:
    """Text that is hardly TOML any more, or only just."""
    place = chance.randrange(len(content) + 1)
    ways: list[tuple[str, bytes]] = [
        ("cut off", content[:place]),
        ("empty", b""),
        ("a byte-order mark", b"\xef\xbb\xbf" + content),
        ("bytes that are no UTF-8", content[:place] + b"\xff\xfe" + content[place:]),
        ("a NUL", content[:place] + b"\x00" + content[place:]),
        ("UTF-16", content.decode("utf-8", "replace").encode("utf-16")),
        ("Windows line ends", content.replace(b"\n", b"\r\n")),
        ("old Macintosh line ends", content.replace(b"\n", b"\r")),
        ("colons", content.replace(b" = ", b": ")),
        ("the same twice", content + content),
        ("deep brackets", content + b"\ndeep = " + b"[" * 3000 + b"]" * 3000 + b"\n"),
        ("deep keys", b".".join([b"a"] * 2000) + b" = 1\n" + content),
        ("a long number", content + b"\nnumber = " + b"9" * 6000 + b"\n"),
        ("a date", content + b"\nwhen = 2024-02-30\n"),
        ("an open quote", content[:place] + b'"' + content[place:]),
        ("a random byte", content[:place] + bytes([chance.randrange(256)]) + content[place + 1 :]),
    ]
    what, spoilt = chance.choice(ways)
    return spoilt, what


def _leaves(table: Table, above: Path_ = ()) -> Iterator[tuple[Path_, Any]]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _leaves(value, (*above, key))
        else:
            yield (*above, key), value


def _some_leaf(table: Table, chance: random.Random) -> Path_:
    paths = [path for path, _ in _leaves(table)]
    if not paths:
        table["rounds"] = 1
        return ("rounds",)
    return chance.choice(paths)


def _get(table: Table, path: Path_) -> Any:
    value: Any = table
    for key in path:
        value = value.get(key, {})
    return value


def _put(table: Table, path: Path_, value: Any) -> None:
    inner = table
    for key in path[:-1]:
        inner = inner.setdefault(key, {})
    inner[path[-1]] = value
