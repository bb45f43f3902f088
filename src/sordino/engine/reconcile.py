"""Whether the server's ledger and a client's own tell the same story: what an auditor can check from two files.

Formal guarantee: where this passes, every release that the client ever made for the run is a line of the server's ledger, at the
same price, and what the client has put down for the run is at least what its releases cost by the server's ledger, in every view.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from sordino.core import SordinoError, View
from sordino.engine.client.lifetime import LifetimeLedger, Release
from sordino.privacy.accounting import spent
from sordino.privacy.event_kinds import DpEvent
from sordino.privacy.events import to_json
from sordino.privacy.grant import Grant
from sordino.privacy.ledger import Ledger
from sordino.privacy.ledger_file import Book, read_book
from sordino.privacy.line import alike
from sordino.privacy.pricing import neighbours_in

SAME = 1e-6


def reconcile(server: Path, client: Path) -> dict[str, Any]:
    """Compare two ledger files; the first disagreement is an error.

    Returns which run and client it is about, how many releases both know, how many charged turns stayed empty (the server asked,
    and the client released nothing), and ε of the client in each view: what the `server` charged, what of that `left` the client, and
    what the `client` put down for the whole plan.
    """
    if not client.is_file():
        raise SordinoError(f"A node's own ledger was expected at {client}, but there is none; check the path.")
    book, own = read_book(server), LifetimeLedger(client, readonly=True)
    ledger = Ledger.of_book(book)
    agreed = own.agreed(ledger.run)
    if agreed is None:
        known = ", ".join(f"{one.about} ({run[:8]}…)" for run, one in own.agreements.items()) or "none"
        raise SordinoError(
            f"{client} knows nothing of the run {ledger.run[:8]}… of {server}: it agreed to {known}; name the ledger of a node that took "
            "part."
        )
    released = {release.nonce: release for release in own.releases[ledger.run]}
    lines = {grant.nonce: grant for grant in _grants(book, ledger.run, agreed.client)}
    for nonce, release in released.items():
        _check_release(release, lines.get(nonce), server, client)
    epsilon = _epsilon(book, own, agreed.client)
    for view, told in epsilon.items():
        if told["left"] > told["client"] * (1 + SAME):
            raise SordinoError(
                f"What this client released costs ε = {told['left']:.4g} in the {view} view by {server}, but {client} has put down only "
                f"{told['client']:.4g} for the run; do not publish it, and report how it came about."
            )
    return {
        "run": ledger.run,
        "name": agreed.about,
        "client": agreed.client,
        "releases": len(released),
        "empty_turns": len(set(lines) - set(released)),
        "delta": agreed.delta,
        "epsilon": epsilon,
        "server_head": book.head,
        "client_head": own.head,
    }


def _grants(book: Book, run: str, client: int) -> list[Grant]:
    """What each line of the server's ledger granted this client."""
    shares = (
        Grant.of(line, number, run=run).share(client)
        for number, line in enumerate(book.lines)
        if client in line.participants
    )
    return list(shares)


def _check_release(release: Release, line: Grant | None, server: Path, client: Path) -> None:
    where = f"for line {release.line} (round {release.round}, attempt {release.attempt})"
    if line is None:
        raise SordinoError(
            f"{client} has a release {where} that is no line of {server}: it was released and not charged, or the ledger was cut; restore "
            "both files from copies, and do not publish this run."
        )
    theirs = ((charge.view, charge.event) for charge in line.charges)
    if not alike(_by_view(release.charges), _by_view(theirs)):
        raise SordinoError(f"{client} and {server} name different prices {where}; do not publish this run.")


def _by_view(charges: Iterable[tuple[View, DpEvent]]) -> list[Any]:
    return [[view, to_json(event)] for view, event in sorted(charges, key=lambda charge: charge[0])]


def _epsilon(book: Book, own: LifetimeLedger, client: int) -> dict[View, dict[str, float]]:
    """ε of the client in each view: all that the server charged it, what really left it, and what it has put down for the run."""
    ledger = Ledger.of_book(book)
    released = {release.line for release in own.releases[ledger.run]}
    found = {}
    for view, report in ledger.report().items():
        bills = {"left": _left(book, view, client, released), "client": own.total(view, runs=[ledger.run])}
        neighbours = neighbours_in(view, ledger.neighbours)
        found[view] = {
            "server": report.per_client.get(client, math.inf),
            **{
                name: spent(bill, delta=ledger.delta, neighbours=neighbours, precise=True).epsilon
                for name, bill in bills.items()
            },
        }
    return found


def _left(book: Book, view: View, client: int, released: set[int]) -> Counter[DpEvent]:
    """The charges without those of empty turns: a pool pays whoever was drawn, a participant only for what it released."""
    bill: Counter[DpEvent] = Counter()
    for number, line in enumerate(book.lines):
        pays = {"pool": client % line.period == line.residue, "participants": number in released}
        bill.update(charge.event for charge in line.charges if charge.view == view and pays[charge.whom])
    return bill
