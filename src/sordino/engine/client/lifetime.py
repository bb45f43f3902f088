"""A client's own ledger: every run it agreed to and every grant it spent, over all servers, on its own disk."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any

from sordino.core import VIEWS, SordinoError, View
from sordino.files import append_row, make_folder, whole_rows
from sordino.privacy.event_kinds import DpEvent
from sordino.privacy.events import from_json, to_json
from sordino.privacy.grant import Grant

Bills = Mapping[View, Counter[DpEvent]]
"""What is paid in each view."""


class LifetimeLedger:
    """Rows are chained by digest, added whole and synced before anything leaves. Ledgers of one client add up over its life.

    Formal guarantee: what was agreed to or spent before a crash is found again after it, and no row can be edited, removed or
    reordered unseen. A row that was cut short was never synced, so nothing left for it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._head = ""
        self._runs: dict[str, Bills] = {}
        self._spent: dict[str, str] = {}
        self._used: dict[str, Counter[tuple[View, DpEvent]]] = defaultdict(Counter)
        self._besides: dict[View, Counter[DpEvent]] = {view: Counter() for view in VIEWS}
        make_folder(path.parent)
        content = whole_rows(path.read_bytes()) if path.exists() else b""
        if path.exists() and path.stat().st_size != len(content):
            with path.open("r+b") as file:
                file.truncate(len(content))
        self._length = len(content)
        for number, row in enumerate(content.splitlines()):
            self._read(row, number)

    def total(self, view: View) -> Counter[DpEvent]:
        """Everything that was agreed to or spent so far."""
        found = Counter(self._besides[view])
        for bills in self._runs.values():
            found.update(bills[view])
        return found

    def knows(self, run: str) -> bool:
        """Whether the plan of this run was agreed to before."""
        return run in self._runs

    def agree(self, run: str, about: str, bills: Bills) -> None:
        """Put down what a run costs as planned, in full, before it begins."""
        written = {view: [[to_json(event), times] for event, times in bill.items()] for view, bill in bills.items()}
        self._write({"agreed": run, "about": about, "bills": written})

    def spent_for(self, nonce: str) -> str | None:
        """The digest of the request for which this grant was spent; None where it was not."""
        return self._spent.get(nonce)

    def beyond_plan(self, grant: Grant) -> Bills:
        """What this grant costs besides the plan of its run: all of a repeated round, and whatever was not planned so often."""
        planned, used = self._runs.get(grant.run, {}), self._used[grant.run]
        besides: dict[View, Counter[DpEvent]] = {}
        for charge in grant.charges:
            key = (charge.view, charge.event)
            if grant.attempt or used[key] >= planned.get(charge.view, Counter())[charge.event]:
                besides.setdefault(charge.view, Counter())[charge.event] += 1
        return besides

    def spend(self, grant: Grant, request: str, besides: Bills) -> None:
        """Put down that a grant is spent, for a request of this digest, and what it costs besides the plan."""
        extra = [[view, to_json(event)] for view, bill in besides.items() for event in bill.elements()]
        charges = [[charge.view, to_json(charge.event)] for charge in grant.charges]
        entry = {"spent": grant.nonce, "run": grant.run, "request": request, "charges": charges, "besides": extra}
        self._write(entry)

    def _write(self, entry: dict[str, Any]) -> None:
        body = json.dumps(entry, sort_keys=True)
        row = json.dumps({"entry": entry, "digest": _chained(self._head, body)}).encode() + b"\n"
        self._length = append_row(self._path, row, durable=True, length=self._length or None)
        self._take(entry, _chained(self._head, body))

    def _read(self, row: bytes, number: int) -> None:
        try:
            found = json.loads(row)
            entry, digest = found["entry"], found["digest"]
        except (ValueError, KeyError, TypeError) as error:
            raise SordinoError(f"Row {number + 1} of {self._path} is damaged; restore the file from a copy.") from error
        if digest != _chained(self._head, json.dumps(entry, sort_keys=True)):
            raise SordinoError(
                f"Row {number + 1} of {self._path} does not follow from the one before: the file was edited, so restore it from a copy."
            )
        self._take(entry, digest)

    def _take(self, entry: dict[str, Any], digest: str) -> None:
        self._head = digest
        if "agreed" in entry:
            self._runs[entry["agreed"]] = {
                view: Counter({from_json(event): times for event, times in entry["bills"][view]}) for view in VIEWS
            }
            return
        self._spent[entry["spent"]] = entry["request"]
        self._used[entry["run"]].update((view, from_json(event)) for view, event in entry["charges"])
        for view, event in entry["besides"]:
            self._besides[view][from_json(event)] += 1


def _chained(head: str, body: str) -> str:
    return blake2b(f"{head}\n{body}".encode(), digest_size=16).hexdigest()
