"""A client's own ledger: every run it agreed to and every grant it spent, over all servers, on its own disk."""

from __future__ import annotations

import datetime as dt
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from sordino.core import VIEWS, Neighbours, SordinoError, Unit, View
from sordino.nodes.chained import ChainedFile, Entry
from sordino.privacy.accounting import spent
from sordino.privacy.event_kinds import DpEvent
from sordino.privacy.events import from_json, to_json
from sordino.privacy.grant import Grant
from sordino.privacy.pricing import Charge, neighbours_in

KIND, SCHEMA = "sordino-client-ledger", 2
Bills = Mapping[View, Counter[DpEvent]]
"""What is paid in each view."""


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """What a client agreed to: one run, as it was planned."""

    run: str
    """The name of the run: the digest of the header of the server's ledger."""
    about: str
    """What the server calls it."""
    server: str = ""
    """Whose run it is, as the client knows the server; nothing in a simulation."""
    plan: str
    """The fingerprint of the settings."""
    client: int
    """This client's number in the run."""
    unit: Unit
    neighbours: Neighbours
    delta: float

    def same_plan(self, other: Agreement) -> bool:
        """Whether both are about the same plan and the same seat in it, whatever it is called."""
        return replace(self, about="", server="") == replace(other, about="", server="")


@dataclass(frozen=True, kw_only=True)
class Release:
    """One grant that was spent."""

    nonce: str
    line: int
    """Of the server's ledger, from 0."""
    attempt: int
    round: int
    label: str
    charges: tuple[tuple[View, DpEvent], ...]
    time: str


class LifetimeLedger:
    """Rows are chained by digest, added whole and synced before anything leaves. Ledgers of one client add up over its life.

    Formal guarantee: what was agreed to or spent before a crash is found again after it, and no row can be edited, removed or
    reordered unseen. A row that was cut short was never synced, so nothing left for it.
    """

    def __init__(self, path: Path, *, readonly: bool = False) -> None:
        self.path = path
        self.agreements: dict[str, Agreement] = {}
        self.releases: dict[str, list[Release]] = defaultdict(list)
        """What was spent, by run."""
        self._bills: dict[str, Bills] = {}
        self._besides: dict[str, dict[View, Counter[DpEvent]]] = defaultdict(_nothing)
        self._spent: dict[str, str] = {}
        self._used: dict[str, Counter[tuple[View, DpEvent]]] = defaultdict(Counter)
        self._begun = False
        self._file = ChainedFile(path, self._take, readonly=readonly)

    @property
    def head(self) -> str:
        """The digest of the last row, and so of all of them: tell it to somebody, and nothing can be taken back."""
        return self._file.head

    def total(self, view: View, *, runs: Iterable[str] | None = None) -> Counter[DpEvent]:
        """Everything that was agreed to or spent besides so far, of all runs or of some."""
        found: Counter[DpEvent] = Counter()
        for run in self._bills if runs is None else runs:
            found.update(self._bills[run][view])
            found.update(self._besides[run][view])
        return found

    def epsilon(
        self,
        view: View,
        *,
        delta: float | None = None,
        besides: Agreement | None = None,
        bill: Mapping[DpEvent, int] | None = None,
    ) -> float:
        """ε of a whole life in one view, by composition of all events of all runs; with `bill`, as if that were paid too.

        Formal guarantee: everything that was ever released tells the world that was from one in which, in each run, the unit
        that the run promised to hide was left out, by at most this ε at δ. Without a `delta` it is the smallest of all runs;
        where runs differ in what neighbours are, all are priced as replace-one, which costs at least as much.
        """
        agreed = [*self.agreements.values(), *([besides] if besides else [])]
        if not agreed:
            return 0.0
        relations = {neighbours_in(view, one.neighbours) for one in agreed}
        events = self.total(view)
        events.update(bill or {})
        return spent(
            events,
            delta=min(one.delta for one in agreed) if delta is None else delta,
            neighbours=relations.pop() if len(relations) == 1 else "replace-one",
        ).epsilon

    def agreed(self, run: str) -> Agreement | None:
        """What was agreed to under this name, if anything was."""
        return self.agreements.get(run)

    def agree(self, agreement: Agreement, bills: Bills) -> None:
        """Put down what a run costs as planned, in full, before it begins."""
        written = {view: [[to_json(event), times] for event, times in bill.items()] for view, bill in bills.items()}
        self._write({"agreed": asdict(agreement), "bills": written})

    def same_bills(self, run: str, bills: Bills) -> bool:
        """Whether a run that was agreed to costs the same as it did then."""
        return all(self._bills[run][view] == bills[view] for view in VIEWS)

    def spent_for(self, nonce: str) -> str | None:
        """The digest of the request for which this grant was spent; None where it was not."""
        return self._spent.get(nonce)

    def beyond_plan(self, grant: Grant, *, pool_rounds_beyond: int) -> Bills:
        """What this grant costs besides the plan of its run.

        A charge that only participants pay is beyond the plan once it was paid as often as planned. One that a whole pool pays
        is paid also in rounds in which this client was not drawn: `pool_rounds_beyond` says how many rounds there may have been
        so far besides those that were planned.
        """
        planned, used = self._bills.get(grant.run, {}), self._used[grant.run]
        besides: dict[View, Counter[DpEvent]] = {}
        for charge in grant.charges:
            key = (charge.view, charge.event)
            times = int(used[key] >= planned.get(charge.view, Counter())[charge.event])
            if charge.whom == "pool":
                times = max(times, pool_rounds_beyond - self._pool_besides(grant.run, charge))
            if times > 0:
                besides.setdefault(charge.view, Counter())[charge.event] += times
        return besides

    def spend(self, grant: Grant, request: str, besides: Bills) -> None:
        """Put down that a grant is spent, for a request of this digest, and what it costs besides the plan."""
        self._write(
            {
                "spent": grant.nonce,
                "run": grant.run,
                "line": grant.line,
                "attempt": grant.attempt,
                "round": grant.round,
                "label": grant.label,
                "request": request,
                "charges": [[charge.view, to_json(charge.event)] for charge in grant.charges],
                "besides": [[view, to_json(event)] for view, bill in besides.items() for event in bill.elements()],
            }
        )

    def _pool_besides(self, run: str, charge: Charge) -> int:
        return self._besides[run][charge.view].total()

    def _write(self, entry: Entry) -> None:
        if not self._begun:
            self._file.add({"kind": KIND, "schema": SCHEMA, "time": _now()})
        self._file.add({"time": _now(), **entry})

    def _take(self, entry: Entry) -> None:
        if not self._begun:
            self._begin(entry)
        elif "agreed" in entry:
            agreement = Agreement(**entry["agreed"])
            self.agreements[agreement.run] = agreement
            self._bills[agreement.run] = {
                view: Counter({from_json(event): times for event, times in entry["bills"][view]}) for view in VIEWS
            }
        else:
            self._take_release(entry)

    def _begin(self, entry: Entry) -> None:
        if entry.get("kind") != KIND or entry.get("schema") != SCHEMA:
            raise SordinoError(
                f"{self.path} should begin with a header of schema {SCHEMA}, but got schema {entry.get('schema', 'none')}; use the version "
                "that wrote it, or restore the file from a copy."
            )
        self._begun = True

    def _take_release(self, entry: Entry) -> None:
        run, charges = entry["run"], _read_charges(entry["charges"])
        self._spent[entry["spent"]] = entry["request"]
        self._used[run].update(charges)
        for view, event in _read_charges(entry["besides"]):
            self._besides[run][view][event] += 1
        self.releases[run].append(
            Release(
                nonce=entry["spent"],
                line=entry["line"],
                attempt=entry["attempt"],
                round=entry["round"],
                label=entry["label"],
                charges=charges,
                time=entry["time"],
            )
        )


def _nothing() -> dict[View, Counter[DpEvent]]:
    return {view: Counter() for view in VIEWS}


def _read_charges(written: list[list[Any]]) -> tuple[tuple[View, DpEvent], ...]:
    return tuple((view, from_json(event)) for view, event in written)


def _now() -> str:
    return dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
