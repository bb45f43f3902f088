"""What may be published of a secure run: nothing that depends on private data, or on who was drawn, without a charge.

The public and the client view count on a cohort that stays secret. How often the busiest client was charged, how many bytes
went up, how long a round took: each gives the cohort's size away, and with it the amplification by sampling. So the ε that is
published is that of somebody who is drawn as often as can be, and figures of the cohort stay with the server.
"""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from sordino.core import VIEWS, View
from sordino.engine import class_scores, number_scores
from sordino.engine.evaluate import accuracy_epsilon_area
from sordino.engine.record import Release
from sordino.engine.tariff import Tariff
from sordino.experiment import PrivacySection
from sordino.privacy.accounting import Spent, spent
from sordino.privacy.ledger import Ledger, Line
from sordino.privacy.pricing import neighbours_in

if TYPE_CHECKING:
    from sordino.privacy.event_kinds import DpEvent

KEPT_BACK = frozenset(
    {
        "bytes_down",
        "bytes_up",
        "client_names",
        "ledger_head",
        "ledger_lines",
        "missing",
        "non_private_diagnostics",
        "schedule",
        "seconds",
        "simulation_note",
    }
)
"""Fields of a summary that stay with the server."""
PUBLISHED_METRICS = (
    "round",
    "accuracy",
    "accuracy_charged",
    "accuracy_noise_deviation",
    "auroc",
    *class_scores.NAMES,
    *number_scores.NAMES,
    "view",
)
ROUND_LABELS = ("update", "steps")
"""Lines that are charged for those who were drawn; all others are charged to everyone."""


def make_release(
    summary: Mapping[str, Any],
    metrics: Iterable[Mapping[str, Any]],
    *,
    tariff: Tariff,
    ledger: Ledger,
    privacy: PrivacySection,
    public_figures: Iterable[str] = (),
) -> Release:
    """The published part of a run that ended; `public_figures` names the metrics that a method makes of released values alone."""
    prices = _Prices(tariff, ledger, privacy, rounds=summary["rounds"])
    names = (*PUBLISHED_METRICS, *public_figures)
    rows = [{**{name: row[name] for name in names if name in row}, "epsilon": prices.at(row)} for row in metrics]
    kept = {name: value for name, value in summary.items() if name not in KEPT_BACK}
    epsilon = {view: prices.entry(view, summary["epsilon"][view]) for view in VIEWS}
    return Release(
        summary={**kept, "epsilon": epsilon, "accuracy_epsilon_area": accuracy_epsilon_area(rows)}, metrics=rows
    )


class _Prices:
    """ε that tells nothing of who was drawn: of the pool where it pays together, else of somebody who is always drawn.

    Formal guarantee: no client paid more. Within a round and an attempt at it, nobody paid more often than the busiest did, and
    nobody was let past the budget.
    """

    def __init__(self, tariff: Tariff, ledger: Ledger, privacy: PrivacySection, *, rounds: int) -> None:
        self._tariff = dataclasses.replace(tariff, before={}, evaluation=None)
        self._privacy, self._rounds = privacy, rounds
        self._budget = ledger.budget
        self._others = [line for line in ledger.lines if line.label not in ROUND_LABELS]
        self._calls = _calls(line for line in ledger.lines if line.label in ROUND_LABELS)

    def entry(self, view: View, counted: Mapping[str, Any]) -> dict[str, Any]:
        """What is published of a view, of which the ledger `counted` this."""
        entry = {name: counted[name] for name in ("epsilon", "delta", "accountant", "because", "note")}
        if self._pays_together(view):
            return entry
        worst = self._worst(view, self._rounds, self._calls, precise=True)
        return {**entry, "epsilon": self._within_budget(view, worst.epsilon), "accountant": worst.accountant}

    def at(self, row: Mapping[str, Any]) -> float:
        """At an evaluation, in the view of the promise."""
        view, rounds = self._privacy.view, row["round"] + 1
        if self._pays_together(view):
            return float(row["epsilon"])
        calls = Counter({number: count for number, count in self._calls.items() if number < rounds})
        return self._within_budget(view, self._worst(view, rounds, calls).epsilon)

    def _pays_together(self, view: View) -> bool:
        return self._tariff.price(0, 0).in_view(view).whom == "pool"

    def _within_budget(self, view: View, epsilon: float) -> float:
        if self._budget is None or self._budget.view != view:
            return epsilon
        return min(epsilon, max((self._budget.epsilon, *self._budget.per_client.values())))

    def _worst(self, view: View, rounds: int, calls: Counter[int], *, precise: bool = False) -> Spent:
        privacy = self._privacy
        prices = (
            spent(
                self._bill(client, view, rounds, calls),
                delta=privacy.delta,
                neighbours=neighbours_in(view, privacy.neighbours),
                precise=precise,
            )
            for client in self._tariff.worst_bills(view)
        )
        return max(prices, key=lambda price: price.epsilon)

    def _bill(self, client: int, view: View, rounds: int, calls: Counter[int]) -> Counter[DpEvent]:
        tariff = self._tariff
        period = tariff.sampler.period
        bill = tariff.bill(client, view, until=rounds)
        for number, count in calls.items():
            if number % period == client % period:
                again = max(0, count - (number < rounds))
                bill[tariff.price(client, number).in_view(view).event] += again
        for line in self._others:
            if client in line.participants and line.round < max(1, rounds):
                bill.update(charge.event for charge in line.charges if charge.view == view)
        return bill


def _calls(lines: Iterable[Line]) -> Counter[int]:
    """How often the busiest client paid for each round, all attempts at it together."""
    paid: dict[tuple[int, int], Counter[int]] = defaultdict(Counter)
    for line in lines:
        paid[line.round, line.attempt].update(line.participants)
    calls: Counter[int] = Counter()
    for (number, _), times in paid.items():
        calls[number] += max(times.values(), default=1)
    return calls
