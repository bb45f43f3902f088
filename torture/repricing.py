"""A second opinion on ε: the ledger's file alone, composed by dp-accounting's own accountants. Nothing of Sordino is imported.

A row is an object with `round`, `participants`, `period`, `residue` and `charges` of `view`, `whom` and `event`. `pool` charges
are paid by every client that leaves `residue` when divided by `period`, `participants` charges by those who took part. A first
row of `"kind": "sordino-ledger"` says how many clients there are, at which δ and for which neighbours.

Tolerance: both accountants round losses up to a grid (dp-accounting's here is `GRID` wide, whatever ε is), so both are upper
bounds of the same figure and differ by their grids. Up to `RELATIVE` of ε plus `ABSOLUTE` they are taken to agree; one round
more or less, of the twenty to forty of a run here, moves ε by more than that.
"""

from __future__ import annotations

import functools
import json
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

VIEWS = ("public", "server", "client")
COARSE_GRID, GRID = 4e-3, 1e-4
RELATIVE, ABSOLUTE = 0.001, 0.001

Bill = Counter[str]
"""How often each event, as canonical JSON, was paid."""


class CannotPrice(Exception):
    """The ledger holds something that this re-pricer does not know; says what."""


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What the header says, or the summary where a ledger has none."""

    clients: int
    delta: float
    neighbours: str


def read_rows(path: Path) -> tuple[dict[str, Any] | None, list[dict[str, Any]]]:
    """The header, where there is one, and the lines of a ledger."""
    rows = [json.loads(row) for row in path.read_text(encoding="utf-8").splitlines()]
    if rows and rows[0].get("kind") == "sordino-ledger":
        return rows[0], rows[1:]
    return None, rows


def facts_of(header: Mapping[str, Any] | None, summary: Mapping[str, Any]) -> Facts:
    if header is not None:
        return Facts(clients=header["clients"], delta=header["delta"], neighbours=header["neighbours"])
    return Facts(
        clients=summary["clients"], delta=summary["epsilon"]["public"]["delta"], neighbours=summary["neighbours"]
    )


def reprice(rows: list[dict[str, Any]], facts: Facts) -> dict[str, float]:
    """ε of the worst client, by view."""
    return {view: _worst(rows, view, facts) for view in VIEWS}


def agree(one: float, other: float) -> bool:
    """Whether two accountants' figures are the same one."""
    if math.isinf(one) or math.isinf(other):
        return one == other
    return abs(one - other) <= ABSOLUTE + RELATIVE * max(one, other)


def _worst(rows: list[dict[str, Any]], view: str, facts: Facts) -> float:
    """Prices on the coarse grid are upper bounds, so that only bills which may be the worst need the fine one."""
    neighbours = "zero-out" if view == "server" and facts.neighbours == "add-remove" else facts.neighbours
    bills = list(_undominated({frozenset(bill.items()) for bill in _bills(rows, view, facts.clients)}))
    at_most = {bill: _epsilon(bill, facts.delta, neighbours, COARSE_GRID) for bill in bills}
    worst = 0.0
    for bill in sorted(bills, key=at_most.__getitem__, reverse=True):
        if at_most[bill] > worst:
            worst = max(worst, _epsilon(bill, facts.delta, neighbours, GRID))
    return worst


def _bills(rows: list[dict[str, Any]], view: str, clients: int) -> list[Bill]:
    bills = [Bill() for _ in range(clients)]
    for row in rows:
        for charge in row["charges"]:
            if charge["view"] == view:
                event = json.dumps(charge["event"], sort_keys=True)
                for client in _payers(row, charge["whom"], clients):
                    bills[client][event] += 1
    return bills


def _payers(row: Mapping[str, Any], whom: str, clients: int) -> Iterator[int]:
    if whom == "pool":
        yield from range(row["residue"], clients, row["period"])
    elif whom == "participants":
        yield from row["participants"]
    else:
        raise CannotPrice(f"a charge is paid by {whom!r}")


def _undominated(bills: set[frozenset[tuple[str, int]]]) -> Iterator[frozenset[tuple[str, int]]]:
    """Bills that no other contains: a bill that another one contains cannot cost more."""
    counters = {bill: Counter(dict(bill)) for bill in bills}
    for bill, paid in counters.items():
        if not any(bill != other and paid <= more for other, more in counters.items()):
            yield bill


@functools.cache
def _epsilon(bill: frozenset[tuple[str, int]], delta: float, neighbours: str, grid: float) -> float:
    import dp_accounting
    from dp_accounting import pld, rdp

    events = [
        event if count == 1 else dp_accounting.SelfComposedDpEvent(event, count)
        for event, count in ((_event(json.loads(text)), count) for text, count in sorted(bill))
    ]
    whole = dp_accounting.ComposedDpEvent(events)
    if not events:
        return 0.0
    if _unprotected(whole):
        return math.inf
    relation = {
        "zero-out": dp_accounting.NeighboringRelation.REPLACE_SPECIAL,
        "add-remove": dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE,
        "replace-one": dp_accounting.NeighboringRelation.REPLACE_ONE,
    }[neighbours]
    for accountant in (
        pld.PLDAccountant(neighboring_relation=relation, value_discretization_interval=grid),
        rdp.RdpAccountant(neighboring_relation=relation),
    ):
        if accountant.supports(whole):
            return float(accountant.compose(whole).get_epsilon(delta))
    raise CannotPrice(f"dp-accounting has no accountant for {whole!r} under {neighbours}")


def _event(data: Mapping[str, Any]) -> Any:
    """dp-accounting's own event; several Gaussians from one sampled batch are one joint Gaussian."""
    import dp_accounting as dp

    made: dict[str, Callable[[], Any]] = {
        "gaussian": lambda: dp.GaussianDpEvent(data["noise_multiplier"]),
        "laplace": lambda: dp.LaplaceDpEvent(data["noise_multiplier"]),
        "poisson": lambda: _sampled(data["rate"], _joined(_event(data["event"]))),
        "all-of": lambda: dp.ComposedDpEvent([_event(each) for each in data["events"]]),
        "repeated": lambda: dp.SelfComposedDpEvent(_event(data["event"]), data["count"]),
        "non-private": dp.NonPrivateDpEvent,
        "nothing": dp.NoOpDpEvent,
    }
    if data["kind"] not in made:
        raise CannotPrice(f"an event is of kind {data['kind']!r}")
    return made[data["kind"]]()


def _sampled(rate: float, event: Any) -> Any:
    import dp_accounting as dp

    return event if rate == 1 else dp.PoissonSampledDpEvent(rate, event)


def _joined(event: Any) -> Any:
    import dp_accounting as dp

    if isinstance(event, dp.ComposedDpEvent) and all(isinstance(each, dp.GaussianDpEvent) for each in event.events):
        return dp.GaussianDpEvent(sum(each.noise_multiplier**-2 for each in event.events) ** -0.5)
    return event


def _unprotected(event: Any) -> bool:
    import dp_accounting as dp

    if isinstance(event, dp.ComposedDpEvent):
        return any(map(_unprotected, event.events))
    if hasattr(event, "event"):
        return _unprotected(event.event)
    return isinstance(event, dp.NonPrivateDpEvent) or getattr(event, "noise_multiplier", 1.0) == 0
