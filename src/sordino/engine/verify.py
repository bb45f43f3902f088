"""Whether a run folder holds together: the ledger unbroken, its price worked out again from the file alone, and the same as told."""

from __future__ import annotations

import hashlib
import math
from pathlib import Path
from typing import Any

from sordino.core import VIEWS, SordinoError, View
from sordino.engine.record import RunRecord, facts_digest, read_summary
from sordino.experiment import experiment as checked
from sordino.privacy.ledger import Ledger
from sordino.privacy.ledger_file import Book, read_book

SAME = 1e-6
"""Two figures of ε that differ by less than this share are the same, worked out by two processes."""


def verify(folder: Path) -> dict[str, Any]:
    """Check a finished or unfinished run; the first thing that is wrong is an error.

    Returns how many lines the ledger has, its head, and ε of each view: by the ledger alone, and as the summary tells it.
    """
    record = RunRecord(folder)
    found = record.read_experiment()
    book = read_book(record.ledger)
    _check_settings(record, found, book)
    ledger = Ledger.of_book(book)
    priced = {view: report.worst.epsilon for view, report in ledger.report().items()}
    told: dict[View, float] = {}
    if record.summary.exists():
        summary = read_summary(folder)
        told = {view: float(summary["epsilon"][view]["epsilon"]) for view in VIEWS}
        _check_summary(record, summary, book, priced, told)
    else:
        _check_checkpoint(record, book)
    _check_budget(record, found["experiment"]["privacy"], ledger)
    return {
        "folder": str(folder),
        "finished": bool(told),
        "ledger_lines": len(book.lines),
        "ledger_head": book.head,
        "delta": book.header.delta,
        "epsilon": {view: {"ledger": priced[view], "summary": told.get(view)} for view in VIEWS},
    }


def _check_settings(record: RunRecord, found: dict[str, Any], book: Book) -> None:
    facts = {
        "settings_fingerprint": checked(found["experiment"]).fingerprint(),
        "facts_digest": facts_digest(found["facts"]),
        "data_digest": found["facts"].get("data_digest"),
    }
    for name, expected in facts.items():
        if book.header.about.get(name) != expected:
            raise SordinoError(
                f"{record.experiment} does not belong to {record.ledger}: the ledger was begun with {name} "
                f"{book.header.about.get(name)}, but got {expected}; restore the folder from a copy."
            )


def _check_summary(
    record: RunRecord, summary: dict[str, Any], book: Book, priced: dict[View, float], told: dict[View, float]
) -> None:
    if summary.get("ledger_head") != book.head:
        raise SordinoError(
            f"{record.ledger} is not the ledger that {record.summary} was made of: it ends in {book.head} after {len(book.lines)} "
            f"lines, but the summary says {summary.get('ledger_head')} after {summary.get('ledger_lines')}; restore the folder from a copy."
        )
    for view in VIEWS:
        if not _same(priced[view], told[view]):
            raise SordinoError(
                f"{record.summary} tells ε = {told[view]:g} in the {view} view, but the ledger costs {priced[view]:g}; "
                "trust the ledger, and restore the summary from a copy."
            )
    if hashlib.sha256(record.model.read_bytes()).hexdigest() != summary.get("model_sha256"):
        raise SordinoError(f"{record.model} is not the model that this run ended with; restore it from a copy.")
    if record.release.exists():
        _check_release(record, priced)


def _check_release(record: RunRecord, priced: dict[View, float]) -> None:
    published = read_summary(record.release)
    for view in VIEWS:
        claim = float(published["epsilon"][view]["epsilon"])
        if claim < priced[view] and not _same(claim, priced[view]):
            raise SordinoError(
                f"{record.release} claims ε = {claim:g} in the {view} view, but the ledger costs {priced[view]:g}; do not publish it."
            )


def _check_checkpoint(record: RunRecord, book: Book) -> None:
    checkpoint = record.load_checkpoint()
    if checkpoint is None:
        return
    kept = checkpoint.ledger_lines
    if kept > len(book.lines) or book.heads[kept] != checkpoint.ledger_head:
        raise SordinoError(
            f"{record.ledger} is not the ledger that the checkpoint was made with, after {kept} lines; restore the folder from a copy."
        )


def _check_budget(record: RunRecord, privacy: dict[str, Any], ledger: Ledger) -> None:
    """Nobody may have passed the budget of the promised view."""
    own = privacy["client_epsilon"] if isinstance(privacy["client_epsilon"], list) else ()
    for client, epsilon in ledger.report()[privacy["view"]].per_client.items():
        budget = own[client] if client < len(own) else privacy["epsilon"]
        if budget is not None and math.isfinite(epsilon) and epsilon > budget and not _same(epsilon, budget):
            raise SordinoError(
                f"{record.ledger} has charged client {client} ε = {epsilon:g} in the {privacy['view']} view, past its budget of "
                f"{budget:g}; do not publish this run, and report how it came about."
            )


def _same(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=SAME) or one == other
