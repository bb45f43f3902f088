"""The ledger on disk: a header, then one row for each line, chained so that a changed row shows.

Every row ends with the digest of itself and of all rows before it. The last digest, the head, is kept in the checkpoint and
in the summary too, so rows cannot be edited, removed, moved or taken from an older copy without a mismatch. No key is involved:
who rewrites the ledger, the checkpoint and the summary together is not caught, unless the head was told to somebody before.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sordino.core import Neighbours, SordinoError
from sordino.files import whole_rows
from sordino.privacy.line import Line

SCHEMA = 2
KIND = "sordino-ledger"
_CHAIN = b', "chain": "'


@dataclass(frozen=True, kw_only=True)
class Header:
    """All that is needed to price the lines, and whose ledger it is."""

    clients: int
    delta: float
    neighbours: Neighbours
    about: Mapping[str, str]
    """What the run is bound to, such as the fingerprint of its settings and the digest of its data, each by its name."""


@dataclass(frozen=True, kw_only=True)
class Book:
    """A ledger as it was found on disk."""

    header: Header
    lines: tuple[Line, ...]
    heads: tuple[str, ...]
    """The head after the header, and after each line."""
    length: int
    """Bytes of whole rows; what follows was cut short before it was synced, so it allowed nothing."""

    @property
    def head(self) -> str:
        return self.heads[-1]


def header_row(header: Header) -> tuple[bytes, str]:
    """The first row, and the head after it."""
    return _chained({"kind": KIND, "schema": SCHEMA, **header.__dict__}, before="")


def line_row(line: Line, number: int, *, before: str) -> tuple[bytes, str]:
    """The row of line `number`, written after the head `before`, and the head after it."""
    return _chained({"number": number, **line.to_json()}, before=before)


def read_book(path: Path) -> Book:
    """The whole rows of a ledger file, if they are those that were written."""
    try:
        content = whole_rows(path.read_bytes())
    except OSError as error:
        raise SordinoError(
            f"The ledger {path} cannot be read ({error.strerror}); without it nobody knows what was spent, so restore the "
            "folder from a copy."
        ) from error
    rows = content.splitlines()
    header = _header(path, rows)
    heads = [_checked(path, 0, rows[0], before="")]
    lines = []
    for place, row in enumerate(rows[1:], start=1):
        heads.append(_checked(path, place, row, before=heads[-1]))
        lines.append(_line(path, place, row))
    return Book(header=header, lines=tuple(lines), heads=tuple(heads), length=len(content))


def read_lines(path: Path) -> list[Line]:
    return list(read_book(path).lines)


def _header(path: Path, rows: list[bytes]) -> Header:
    found = _object(path, 0, rows[0]) if rows else {}
    if found.get("kind") != KIND or found.get("schema") != SCHEMA:
        got = found.get("schema", 1) if found else "none"
        raise SordinoError(
            f"The ledger {path} should begin with a header of schema {SCHEMA}, but got schema {got}; it belongs to another "
            "version or was edited, so use the version that wrote it or restore the folder from a copy."
        )
    try:
        return Header(**{name: found[name] for name in ("clients", "delta", "neighbours", "about")})
    except KeyError as error:
        raise _unreadable(path, 0, f"it lacks {error}") from error


def _line(path: Path, place: int, row: bytes) -> Line:
    found = _object(path, place, row)
    try:
        return Line.from_json({key: value for key, value in found.items() if key not in ("number", "chain")})
    except (ValueError, KeyError, TypeError) as error:
        raise _unreadable(path, place, str(error)) from error


def _object(path: Path, place: int, row: bytes) -> dict[str, Any]:
    try:
        found = json.loads(row)
    except ValueError as error:
        raise _unreadable(path, place, str(error)) from error
    if not isinstance(found, dict):
        raise _unreadable(path, place, f"it is {type(found).__name__}, not an object")
    return found


def _unreadable(path: Path, place: int, why: str) -> SordinoError:
    return SordinoError(
        f"The ledger {path} has a row that cannot be read, number {place + 1} ({why}); restore the folder from a copy."
    )


def _chained(row: Mapping[str, Any], *, before: str) -> tuple[bytes, str]:
    text = json.dumps(row, ensure_ascii=False).encode()[:-1]
    head = _digest(text, before)
    return text + _CHAIN + head.encode() + b'"}\n', head


def _checked(path: Path, place: int, row: bytes, *, before: str) -> str:
    text, _, rest = row.rpartition(_CHAIN)
    head = _digest(text, before)
    if rest != head.encode() + b'"}':
        raise SordinoError(
            f"Row {place + 1} of the ledger {path} is not the one that was written there: it was edited, or a row before it was "
            "edited, removed or moved; restore the folder from a copy."
        )
    return head


def _digest(text: bytes, before: str) -> str:
    return hashlib.blake2b(before.encode() + b"\n" + text, digest_size=16).hexdigest()
