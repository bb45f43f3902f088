"""Files of JSON rows that are only ever added to, chained so that a changed, removed or moved row shows.

Each row holds an entry and the digest of itself and of all rows before it. Rows are added whole and synced. No key is involved:
who rewrites the whole file is not caught, unless its head was told to somebody before.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import Any

from sordino.core import SordinoError
from sordino.files import append_row, disk_errors, make_folder, whole_rows

Entry = dict[str, Any]


class ChainedFile:
    """The entries of one file, each handed to `take` when it is read or added.

    Formal guarantee: `add` returns after the row is durable, and `take` sees it only then. A row that was cut short was never
    synced, so nothing was done for it: it is dropped.
    """

    def __init__(self, path: Path, take: Callable[[Entry], None], *, readonly: bool = False) -> None:
        self._path, self._take = path, take
        self.head = ""
        self.rows = 0
        content = whole_rows(path.read_bytes()) if path.exists() else b""
        if not readonly:
            make_folder(path.parent)
            if path.exists() and path.stat().st_size != len(content):
                with disk_errors(path):
                    os.truncate(path, len(content))
        self._length = len(content)
        for row in content.splitlines():
            self._read(row)

    def add(self, entry: Entry) -> None:
        digest = _digest(self.head, entry)
        row = json.dumps({"entry": entry, "digest": digest}, ensure_ascii=False).encode() + b"\n"
        self._length = append_row(self._path, row, durable=True, length=self._length or None)
        self._taken(entry, digest)

    def _read(self, row: bytes) -> None:
        number = self.rows + 1
        try:
            found = json.loads(row)
            entry, digest = found["entry"], found["digest"]
        except (ValueError, KeyError, TypeError) as error:
            raise SordinoError(f"Row {number} of {self._path} is damaged; restore the file from a copy.") from error
        if digest != _digest(self.head, entry):
            raise SordinoError(
                f"Row {number} of {self._path} does not follow from the one before: the file was edited, so restore it from a copy."
            )
        self._taken(entry, digest)

    def _taken(self, entry: Entry, digest: str) -> None:
        self._take(entry)
        self.head = digest
        self.rows += 1


def _digest(head: str, entry: Entry) -> str:
    body = json.dumps(entry, sort_keys=True, ensure_ascii=False)
    return blake2b(f"{head}\n{body}".encode(), digest_size=16).hexdigest()
