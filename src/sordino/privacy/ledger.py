"""The ledger: every release is written down, synced to disk and charged before its noise is drawn."""

from __future__ import annotations

import dataclasses
import itertools
import math
import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from sordino.core import VIEWS, Neighbours, SordinoError, View
from sordino.files import append_row, disk_errors, write_whole
from sordino.privacy.accounting import Spent, spent
from sordino.privacy.grant import Grant
from sordino.privacy.ledger_file import Book, Header, header_row, line_row, read_book, read_lines
from sordino.privacy.line import Line
from sordino.privacy.pricing import Charge, neighbours_in

if TYPE_CHECKING:
    from sordino.privacy.event_kinds import DpEvent

__all__ = ["LISTED", "Accounts", "Budget", "Ledger", "Line", "OverBudget", "ViewReport", "read_lines"]

Multiset = Counter["DpEvent"]

LISTED = 1000
"""Up to this many clients, ε is listed for each."""


@dataclass(frozen=True, kw_only=True)
class Budget:
    """The largest ε a view may reach, for everyone or for each client by itself."""

    view: View
    epsilon: float
    per_client: Mapping[int, float] = field(default_factory=dict)

    def of(self, client: int) -> float:
        return self.per_client.get(client, self.epsilon)


class OverBudget(SordinoError):
    """A release was refused because it would have passed the budget."""


class Accounts:
    """Who has paid what, in one view: pools pay together, participants one by one."""

    def __init__(self) -> None:
        self._pools: dict[tuple[int, int], Multiset] = defaultdict(Counter)
        self._own: dict[int, Multiset] = defaultdict(Counter)

    def add(self, line: Line, charge: Charge) -> None:
        if charge.whom == "pool":
            self._pools[line.period, line.residue][charge.event] += 1
        else:
            for client in line.participants:
                self._own[client][charge.event] += 1

    def of(self, client: int) -> Multiset:
        total = Counter(self._own.get(client, Counter()))
        for (period, residue), events in self._pools.items():
            if client % period == residue:
                total.update(events)
        return total

    def representatives(self, period: int, residue: int, clients: int) -> Iterator[int]:
        """One member of a pool for each distinct bill that its members have to pay."""
        seen = set()
        paid = (client for client in self._own if client % period == residue)
        idle = (client for client in range(residue, clients, period) if client not in self._own)
        for client in itertools.chain(paid, itertools.islice(idle, 1)):
            bill = frozenset(self.of(client).items())
            if bill not in seen:
                seen.add(bill)
                yield client

    def bills(self, clients: int) -> dict[frozenset[tuple[DpEvent, int]], list[int]]:
        """Clients that paid the same, together, so that each distinct bill is priced once.

        On a roster larger than `LISTED`, clients that never took part are stood for by one of each pool.
        """
        bills: dict[frozenset[tuple[DpEvent, int]], list[int]] = defaultdict(list)
        for client in self._own:
            bills[frozenset(self.of(client).items())].append(client)
        period = math.lcm(*(period for period, _ in self._pools)) if self._pools else 1
        for residue in range(min(period, clients)):
            others = (client for client in range(residue, clients, period) if client not in self._own)
            idle = list(others) if clients <= LISTED else list(itertools.islice(others, 1))
            if idle:
                bills[frozenset(self.of(idle[0]).items())].extend(idle)
        return bills


@dataclass(frozen=True, kw_only=True)
class ViewReport:
    """ε in one view: of the worst client, and of each."""

    view: View
    worst: Spent
    worst_client: int
    per_client: Mapping[int, float]
    because: str


class Ledger:
    """Accounts for one run. With a path, every line is on disk before the release it allows.

    Formal guarantee: `charge` either raises and changes nothing, or returns after the lines are durable; the budget is
    checked over everything charged so far plus the new lines. A file that somebody else changed is not written to.
    """

    def __init__(
        self,
        *,
        clients: int,
        delta: float,
        neighbours: Neighbours,
        budget: Budget | None = None,
        path: Path | None = None,
        planned: Iterable[Mapping[DpEvent, int]] = (),
        about: Mapping[str, str] | None = None,
    ) -> None:
        self.clients = clients
        self.delta = delta
        self.neighbours = neighbours
        self.budget = budget
        self.path = path
        self.about = dict(about or {})
        self.lines: list[Line] = []
        self._heads: list[str] = []
        self._length: int | None = None
        self._attempt = 0
        self._accounts: dict[View, Accounts] = {view: Accounts() for view in VIEWS}
        self._reasons: dict[tuple[View, DpEvent], str] = {}
        self._replayed: list[Line] = []
        self._approved: dict[float, list[Multiset]] = defaultdict(list)
        for events in planned:
            self._approve(Counter(events))

    @property
    def head(self) -> str:
        """The digest that the row of the last line ends with; nothing for a ledger without a file."""
        return self._heads[len(self.lines)] if self._heads else ""

    @property
    def header(self) -> Header:
        return Header(clients=self.clients, delta=self.delta, neighbours=self.neighbours, about=self.about)

    def create(self) -> None:
        """Begin the file with its header; one that is there already is not overwritten once it holds a line."""
        assert self.path is not None
        if self.path.exists() and read_book(self.path).lines:
            raise SordinoError(
                f"{self.path} holds the ledger of another run, which must not be overwritten; choose another --out folder."
            )
        row, head = header_row(self.header)
        write_whole(self.path, row)
        self._length, self._heads = len(row), [head]

    def open(self, *, keep: int, replay: bool, head: str | None = None) -> None:
        """Continue a ledger found on disk, whose first `keep` lines belong to completed rounds and end with `head`.

        Later lines belong to a round that was cut off. With reproducible noise that round is `replay`ed: it must charge the
        same lines again, which then stand once. With secure noise it draws afresh, so what it charged before stays charged.
        A last line cut short was never synced, so its noise was never drawn: it is dropped.
        """
        assert self.path is not None
        book = read_book(self.path)
        self._refuse_other(book, keep, head)
        if self.path.stat().st_size > book.length:
            with disk_errors(self.path):
                os.truncate(self.path, book.length)
        self._length, self._heads = book.length, list(book.heads)
        for line in book.lines[:keep] if replay else book.lines:
            self._book(line)
        self._replayed = list(book.lines[keep:]) if replay else []
        if not replay:
            self._attempt = 1 + max((line.attempt for line in book.lines), default=-1)

    @staticmethod
    def of_book(book: Book) -> Ledger:
        """The accounts of a ledger found on disk, priced from that file alone."""
        header = book.header
        ledger = Ledger(
            clients=header.clients, delta=header.delta, neighbours=header.neighbours, about=dict(header.about)
        )
        for line in book.lines:
            ledger._book(line)
        ledger._heads = list(book.heads)
        return ledger

    def charge(self, line: Line) -> Grant:
        """Check the budget, write the line, and grant the release; nothing is drawn before this returns."""
        if self._replayed:
            self._charge_again(line)
        else:
            line = dataclasses.replace(line, attempt=self._attempt) if self._attempt else line
            self._refuse_over_budget(line)
            if self.path is not None:
                self._write(line)
            self._book(line)
        return Grant.of(self.lines[-1], len(self.lines) - 1, run=self.run)

    @property
    def run(self) -> str:
        """A name for the run: the digest of the ledger's header."""
        return header_row(self.header)[1]

    def affords(self, client: int, charges: Sequence[Charge]) -> bool:
        """Whether this client's own budget allows these charges once more."""
        if self.budget is None:
            return True
        after = self._accounts[self.budget.view].of(client)
        after.update(charge.event for charge in charges if charge.view == self.budget.view)
        return self._within(after, self.budget.of(client))

    def bill_of(self, client: int, view: View) -> Multiset:
        """Everything that one client was charged in one view, so far."""
        return self._accounts[view].of(client)

    def report(self) -> dict[View, ViewReport]:
        """ε per view on the fine grid, with every accountant's figure."""
        return {view: self._view(view, thorough=True) for view in VIEWS}

    def worst(self, view: View) -> Spent:
        """ε so far for the worst client of one view."""
        return self._view(view, thorough=False).worst

    def _view(self, view: View, *, thorough: bool) -> ViewReport:
        per_client: dict[int, float] = {}
        worst, worst_client = Spent(epsilon=0.0, delta=self.delta, accountant="none", also={}, note=""), 0
        for bill, clients in self._accounts[view].bills(self.clients).items():
            price = self._price(dict(bill), view, thorough=thorough)
            per_client.update(dict.fromkeys(clients, price.epsilon))
            if price.epsilon > worst.epsilon:
                worst, worst_client = price, clients[0]
        return ViewReport(
            view=view,
            worst=worst,
            worst_client=worst_client,
            per_client=dict(sorted(per_client.items())),
            because=self._because(view, worst_client) if thorough else "",
        )

    def _price(self, bill: Mapping[DpEvent, int], view: View, *, thorough: bool) -> Spent:
        return spent(
            bill,
            delta=self.delta,
            neighbours=neighbours_in(view, self.neighbours),
            precise=thorough,
            both=thorough,
        )

    def _because(self, view: View, client: int) -> str:
        """Why this client pays what it pays: the reason of the charges that cost it most."""
        bill = self._accounts[view].of(client)
        if not bill:
            return "nothing was released"
        alone = {event: self._price({event: count}, view, thorough=False).epsilon for event, count in bill.items()}
        return self._reasons[view, max(alone, key=lambda event: alone[event])]

    def _book(self, line: Line) -> None:
        self.lines.append(line)
        for charge in line.charges:
            self._accounts[charge.view].add(line, charge)
            self._reasons.setdefault((charge.view, charge.event), charge.because)

    def _write(self, line: Line) -> None:
        assert self.path is not None
        if self._length is None:
            self.create()
        row, head = line_row(line, len(self.lines), before=self.head)
        self._length = append_row(self.path, row, durable=True, length=self._length)
        self._heads.append(head)

    def _charge_again(self, line: Line) -> None:
        """Take up the line that was written before the interruption, in place of the same one worked out anew."""
        expected = self._replayed.pop(0)
        if not expected.same_charge(line):
            raise SordinoError(
                f"Round {line.round} charged something else before the interruption than it does now; the run folder belongs "
                "to another version or machine, so start anew with a fresh --out."
            )
        self._book(expected)

    def _refuse_other(self, book: Book, keep: int, head: str | None) -> None:
        if book.header != self.header:
            name, then, now = _first_difference(book.header, self.header)
            raise SordinoError(
                f"The ledger {self.path} was begun with {name} {then}, but this run has {now}; restore what was there, "
                "or start anew with a fresh --out."
            )
        if len(book.lines) < keep:
            raise SordinoError(
                f"The ledger {self.path} has {len(book.lines)} whole lines but the checkpoint counts {keep}; "
                "it was cut or edited, so restore the folder from a copy."
            )
        if head is not None and book.heads[keep] != head:
            raise SordinoError(
                f"The ledger {self.path} is not the one that the checkpoint was made with: after {keep} lines it ends in "
                f"{book.heads[keep]}, but the checkpoint says {head}; restore the folder from a copy."
            )

    def _refuse_over_budget(self, line: Line) -> None:
        budget = self.budget
        if budget is None:
            return
        for charge in (charge for charge in line.charges if charge.view == budget.view):
            payers: Iterable[int] = line.participants if charge.whom == "participants" else self._representatives(line)
            for client in payers:
                after = self._accounts[budget.view].of(client)
                after[charge.event] += 1
                if not self._within(after, budget.of(client)):
                    raise OverBudget(
                        f"Round {line.round} would take client {client} past its budget of ε = {budget.of(client):g} in the "
                        f"{budget.view} view; nothing was released. Plan fewer rounds, more noise or a larger budget."
                    )

    def _representatives(self, line: Line) -> Iterable[int]:
        """One client per distinct bill and budget: the others of the pool fare the same."""
        assert self.budget is not None
        yield from self._accounts[self.budget.view].representatives(line.period, line.residue, self.clients)
        for client in self.budget.per_client:
            if client % line.period == line.residue:
                yield client

    def _within(self, events: Multiset, epsilon: float) -> bool:
        if any(events <= approved for approved in self._approved[epsilon]):
            return True
        assert self.budget is not None
        price = spent(
            events, delta=self.delta, neighbours=neighbours_in(self.budget.view, self.neighbours), precise=True
        )
        if price.epsilon <= epsilon:
            self._approved[epsilon] = [events, *self._approved[epsilon][:7]]
            return True
        return False

    def _approve(self, events: Multiset) -> None:
        """Price a whole plan once, so that each of its rounds need not be priced again."""
        if self.budget is not None:
            for epsilon in {self.budget.epsilon, *self.budget.per_client.values()}:
                self._within(events, epsilon)


def _first_difference(then: Header, now: Header) -> tuple[str, object, object]:
    """The first fact in which two headers differ, by its name."""
    one, other = ({**vars(header), **header.about} for header in (then, now))
    name = next(name for name in (*other, *one) if name != "about" and one.get(name) != other.get(name))
    return name, one.get(name, "missing"), other.get(name, "missing")
