"""What a choice costs in each view.

Formal guarantee: in the public view, where nothing but the chosen run is seen, the bound of `privacy/selection.py` for the
worst curve of all candidates. The server and the clients took part in every run, so they are promised what all drawn runs cost
together. Where more rounds were repeated after crashes than the plan had to spare, it no longer bounds a run, and nothing
finite is claimed.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from sordino.core import VIEWS, View
from sordino.engine.tariff import Tariff
from sordino.experiment import PrivacySection
from sordino.privacy.accounting import rdp_curve, rdp_epsilon, spent
from sordino.privacy.event_kinds import DpEvent
from sordino.privacy.pricing import neighbours_in
from sordino.privacy.selection import Stopping
from sordino.sweeps.checks import Ready

REPEATED = "more was repeated after crashes than the plan had to spare, so it no longer bounds what a run costs"


def price_choice(
    candidates: Sequence[Ready], drawn: Sequence[Ready], stopping: Stopping, *, repeated: bool
) -> dict[View, dict[str, Any]]:
    """ε, δ and a reason for each view."""
    privacy = candidates[0].experiment.privacy
    public = math.inf if repeated else _public(candidates, stopping, privacy)
    prices = {"public": (public, "only the best of a random number of runs is shown")}
    for view in VIEWS[1:]:
        together = math.inf if repeated else _together([one.plan.tariff for one in drawn], view, privacy)
        prices[view] = together, "this view sees every run that was drawn, not only the chosen one"
    return {
        view: {"epsilon": prices[view][0], "delta": privacy.delta, "because": REPEATED if repeated else prices[view][1]}
        for view in VIEWS
    }


def _public(candidates: Sequence[Ready], stopping: Stopping, privacy: PrivacySection) -> float:
    neighbours = neighbours_in("public", privacy.neighbours)
    bills = [bill for one in candidates for bill in one.plan.tariff.worst_bills("public").values()]
    curves = [rdp_curve(bill, neighbours=neighbours) for bill in bills]
    orders, worst = curves[0][0], np.max([curve for _, curve in curves], axis=0)
    return math.inf if np.isinf(worst).all() else rdp_epsilon(orders, stopping.rdp(orders, worst), delta=privacy.delta)


def _together(tariffs: Sequence[Tariff], view: View, privacy: PrivacySection) -> float:
    """Of the client that pays most for all runs."""
    bills = {frozenset(bill.items()): bill for bill in _bills(tariffs, view)}
    neighbours = neighbours_in(view, privacy.neighbours)
    prices = (spent(bill, delta=privacy.delta, neighbours=neighbours).epsilon for bill in bills.values())
    return max(prices, default=0.0)


def _bills(tariffs: Sequence[Tariff], view: View) -> list[Counter[DpEvent]]:
    """What clients pay for all runs: of representatives where all runs have the same, else of everyone."""
    representatives = {tuple(tariff.worst_bills(view)) for tariff in tariffs}
    everyone = range(max((tariff.sampler.clients for tariff in tariffs), default=0))
    clients = representatives.pop() if len(representatives) == 1 else everyone
    return [
        sum((tariff.bill(client, view) for tariff in tariffs if client < tariff.sampler.clients), Counter())
        for client in clients
    ]
