"""Structured logs: one JSON object a line, with events and fields from a fixed list, so that no private value can slip in.

A field is a name, a number of bytes, seconds or rounds, a released figure, or a sentence of ours; nothing that was computed from
rows and not released, and no row. A log never stops a run: where the disk is full, lines are lost.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from sordino.files import NEW_FILE, whole_rows

LONGEST_TEXT = 400
LARGEST_FILE = 32 << 20
"""Bytes; a log that has grown beyond is moved to a name of its own once, and the older copy is dropped."""
EVENTS: dict[str, frozenset[str]] = {
    "begun": frozenset({"run", "name", "rounds", "nodes", "done"}),
    "round": frozenset({"done", "rounds", "accuracy", "epsilon", "view"}),
    "asked": frozenset({"round", "kind", "nodes"}),
    "answered": frozenset({"round", "kind", "node", "seconds", "bytes_up", "bytes_down"}),
    "missing": frozenset({"round", "kind", "node", "because"}),
    "too_few": frozenset({"round", "because"}),
    "seen": frozenset({"node", "status"}),
    "ended": frozenset({"because", "rounds"}),
    "started": frozenset({"node", "address", "version", "pid"}),
    "agreed": frozenset({"run", "name", "server", "plan"}),
    "released": frozenset({"run", "round", "kind", "line"}),
    "refused": frozenset({"run", "round", "because"}),
    "stopped": frozenset({"because"}),
}
"""Every event, and the fields that it may have."""

Plain = str | int | float | None


class JsonLog:
    """Adds events to one file; several processes may do so at once. Without a file nothing is kept.

    Example:
        >>> JsonLog(Path("runs/stroke/log.jsonl")).write("answered", node="north", round=3, seconds=1.2)
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path

    def write(self, event: str, **facts: Plain) -> None:
        if self.path is None:
            return
        strange = set(facts) - EVENTS[event]
        if strange:
            raise ValueError(f"the event {event} of a log has no field {', '.join(sorted(strange))}")
        row = {
            "time": dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds"),
            "event": event,
            **{name: _plain(value) for name, value in facts.items()},
        }
        with suppress(OSError):
            _make_room(self.path)
            descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, NEW_FILE)
            try:
                os.write(descriptor, json.dumps(row, ensure_ascii=False).encode() + b"\n")
            finally:
                os.close(descriptor)


def _make_room(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and path.stat().st_size > LARGEST_FILE:
        os.replace(path, path.with_suffix(".older.jsonl"))


def read_log(path: Path, *, after: int = 0) -> list[dict[str, Any]]:
    """The events of a log, oldest first, or those `after` so many bytes; lines that were cut short are left out."""
    rows = []
    for line in whole_rows(path.read_bytes()[after:]).splitlines() if path.exists() else ():
        with suppress(ValueError):
            rows.append(json.loads(line))
    return [row for row in rows if isinstance(row, dict) and "event" in row and "time" in row]


def _plain(value: Plain) -> Plain:
    if isinstance(value, str):
        return " ".join(value.split())[:LONGEST_TEXT]
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if value is not None and not isinstance(value, int):
        raise ValueError(f"a log holds names and numbers, but got {type(value).__name__}")
    return value
