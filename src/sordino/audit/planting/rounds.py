"""One run of an experiment with canaries: its rounds, on its engine, with a ledger of its own."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from torch import Tensor

from sordino.audit.planting.ground import Coins, Ground, Holding
from sordino.audit.planting.planted import Planted
from sordino.audit.planting.sights import Sight, WatchedTransport, Watchers
from sordino.core import VIEWS, View
from sordino.engine.engines import make_engine
from sordino.engine.federation import FederationServer
from sordino.engine.noise_sources import server_noise
from sordino.engine.setup import in_phase
from sordino.engine.tariff import budget_of
from sordino.methods.method import State
from sordino.privacy.door import Door
from sordino.privacy.ledger import Ledger
from sordino.privacy.pricing import unbounded
from sordino.privacy.streams import stream_id

if TYPE_CHECKING:
    from sordino.privacy.event_kinds import DpEvent

Bill = dict["DpEvent", int]


@dataclass(frozen=True, kw_only=True)
class CanaryRun:
    """Who was in, how loud everybody was in each view, and the ledger of the run."""

    coins: Coins
    sights: dict[View, Sight]
    ledger: Ledger
    seed: int
    moved: Tensor | None
    """The way that the model went from its start to the end; None where it changed its shape on the way."""

    def judged(self, view: View) -> np.ndarray:
        """The canaries that could show in a view."""
        return np.flatnonzero(self.sights[view].seen)


def promised_views(ground: Ground) -> list[View]:
    """The views in which the ledger promises anything."""
    price = ground.parts.tariff.price(0, 0)
    return [view for view in VIEWS if not unbounded(price.in_view(view).event)]


def canary_run(
    ground: Ground,
    *,
    repeat: int,
    views: list[View],
    scratch: Path,
    nodes: Holding | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> CanaryRun:
    """Play all rounds; the coins and the noise of each `repeat` are its own. Real `nodes` hold the rows where there are some."""
    experiment, tariff = ground.experiment, ground.parts.tariff
    seed = stream_id("canary run", experiment.seed, repeat) % 2**62
    coins = np.random.default_rng([seed, 1]).random(ground.canaries) < 0.5
    colluders = _colluders(ground, views)
    coins[[client for client in colluders if client < len(coins)]] = False
    setup = ground.setup(coins, seed=seed, nodes=nodes)
    method = setup.method
    assert isinstance(method, Planted)
    ledger = Ledger(
        clients=ground.clients,
        delta=experiment.privacy.delta,
        neighbours=experiment.privacy.neighbours,
        budget=budget_of(experiment.privacy) if tariff.retires else None,
    )
    watchers = Watchers(sights={view: Sight(view, ground) for view in views}, colluders=colluders)
    door = Door(ledger, server_noise(setup.experiment))
    engine = make_engine(setup, schedule="workers", folder=scratch / f"clients-{repeat}", run=ledger.run)
    with closing(setup.loaded), closing(engine):

        def federation() -> FederationServer:
            return FederationServer(
                roster=setup.federated.roster,
                space=setup.space,
                tariff=setup.tariff,
                door=door,
                transport=WatchedTransport(inner=engine.transport, watchers=watchers),
                keeps_state=method.keeps_state,
            )

        server = federation()
        state: State = {"model": setup.space.read(setup.net)}
        start: Tensor | None = state["model"].clone()
        for number in range(experiment.rounds):
            if number and setup.phase(number) != setup.phase(number - 1):
                setup.space.write(setup.net, state["model"])
                setup = in_phase(setup, setup.phase(number))
                engine.enter(setup)
                server, state, start = federation(), {"model": setup.space.read(setup.net)}, None
            state = method.watched_round(number, state, server.for_round(number), watchers)
            progress(number + 1, experiment.rounds)
    for client in colluders:
        for sight in watchers.sights.values():
            sight.seen[client] = 0
    moved = None if start is None else state["model"] - start
    return CanaryRun(coins=coins, sights=watchers.sights, ledger=ledger, seed=seed, moved=moved)


def _colluders(ground: Ground, views: list[View]) -> list[int]:
    """The last clients, where some of the noise of a sum is theirs; nobody where it is not."""
    tariff = ground.parts.tariff
    shared = tariff.steps is None and tariff.placement != "central" and tariff.uses == "sum" and not tariff.per_client
    count = tariff.colluders if shared and "client" in views else 0
    return list(range(max(0, ground.clients - count), ground.clients))


def worst_bill(run: CanaryRun, view: View) -> tuple[Bill, float]:
    """What the client that paid most has paid in a view, and its ε."""
    report = run.ledger.report()[view]
    bill = dict(run.ledger.bill_of(report.worst_client, view))
    return bill, report.worst.epsilon if bill else math.inf
