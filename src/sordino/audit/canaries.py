"""Canaries: crafted clients and examples, each in or out by a coin, sent through the door of real rounds.

Every canary asks for more than the clip allows, in a direction of its own, so a canary that is in shows with exactly
the clip bound where clipping works, and with more where it does not. Canary clients turn their sign every round: noise
that is used twice cancels out of their scores. A canary that is out contributes zeros (`zero-out` neighbours).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sordino.audit.one_run import OneRunAudit, audit_one_run
from sordino.audit.watched import watched_federation
from sordino.core import Private, SordinoError, View
from sordino.data.examples import IDENTITY, Examples
from sordino.engine.resolved import make_device, resolve
from sordino.experiment import Experiment
from sordino.methods.dp_fedavg import DpFedAvg
from sordino.methods.dp_sgd import DpSgd
from sordino.methods.method import ClientContext, State
from sordino.privacy.grant import Grant
from sordino.privacy.ledger import Ledger
from sordino.privacy.noise import NoiseSource
from sordino.privacy.streams import stream_id

OVERSHOOT = 20.0
"""How many times the clip bound a canary asks for."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Sighting:
    """Who was in, how strongly each canary showed, and the ε the ledger claims for that view."""

    included: NDArray[np.bool_]
    scores: NDArray[np.float64]
    claimed_epsilon: float
    delta: float

    def audit(self, *, called_in: int, called_out: int, confidence: float) -> OneRunAudit:
        return audit_one_run(
            self.scores,
            self.included,
            called_in=called_in,
            called_out=called_out,
            claimed_epsilon=self.claimed_epsilon,
            delta=self.delta,
            confidence=confidence,
        )


def client_canaries(
    experiment: Experiment,
    *,
    view: Literal["public", "server"] = "public",
    source: Callable[[int], NoiseSource] | None = None,
) -> Sighting:
    """Run the experiment's dp-fedavg rounds with a canary in place of every client.

    The public view scores a canary by the model's steps along its coordinate, the server by the canary's own uploads.
    """
    method, privacy = resolve(experiment).method, experiment.privacy
    if not isinstance(method, DpFedAvg):
        raise SordinoError(f"Canary clients take part in dp-fedavg, but the method is {experiment.method['name']!r}.")
    if view == "server" and privacy.noise == "central":
        raise SordinoError("The server sees a central sum before its noise, so its ε is infinite; audit another view.")
    included = _coins(experiment, experiment.data.clients)
    scores = torch.zeros(len(included), dtype=torch.float64)

    def watch(grant: Grant, part: str, upload: Tensor) -> None:
        if view == "server" and grant.client is not None:
            scores[grant.client] += _sign(grant.round) * float(upload[grant.client])

    rows = [Private(_rows(torch.tensor([[float(coin)]]))) for coin in included]
    canaries = _CanaryFedAvg(**vars(method), ask=OVERSHOOT * privacy.clip_norm)
    with watched_federation(
        experiment, canaries, rows, sizes=[1] * len(rows), features=1, watch=watch, source=source
    ) as federation:
        state: State = {"model": torch.zeros(len(rows), device=make_device(experiment.engine.device))}
        for number in range(experiment.rounds):
            after = canaries.round(number, state, federation)
            if view == "public":
                scores += _sign(number) * (after["model"] - state["model"]).double().cpu()
            state = after
    return _sighting(included, scores, federation.door.ledger, view)


def example_canaries(
    experiment: Experiment, *, canaries: int, source: Callable[[int], NoiseSource] | None = None
) -> Sighting:
    """Run the experiment's dp-sgd rounds on canary rows dealt out to its clients, for a logistic model.

    Row j has feature j alone, so its gradient lies along weights of its own: up for class 0 and down for class 1 by the
    same amount, whatever the model. Scores come from every noisy step, which is what the ledger prices.
    """
    method, privacy = resolve(experiment).method, experiment.privacy
    if not isinstance(method, DpSgd):
        raise SordinoError(f"Canary examples take part in dp-sgd, but the method is {experiment.method['name']!r}.")
    clients = 1 if method.pooled else experiment.data.clients
    included = _coins(experiment, canaries)
    scores = torch.zeros(canaries, dtype=torch.float64)

    def watch(grant: Grant, part: str, gradient: Tensor) -> None:
        up, down = gradient.double().cpu().view(2, -1)
        own = slice(grant.client, None, clients)
        scores[own] += (up - down)[own]

    features = torch.diag(torch.from_numpy(included) * (OVERSHOOT * privacy.clip_norm)).float()
    rows = [Private(_rows(features[client::clients])) for client in range(clients)]
    sizes = [len(range(client, canaries, clients)) for client in range(clients)]
    with watched_federation(
        experiment, method, rows, sizes=sizes, features=canaries, watch=watch, source=source
    ) as federation:
        state: State = {"model": torch.zeros(2 * canaries, device=make_device(experiment.engine.device))}
        for number in range(experiment.rounds):
            state = method.round(number, state, federation)
    return _sighting(included, scores, federation.door.ledger, "public")


@dataclass(frozen=True, kw_only=True)
class _CanaryFedAvg(DpFedAvg):
    """DP-FedAvg in which only the clients' own work is crafted."""

    ask: float

    def run(self, start: Tensor, examples: Examples, context: ClientContext) -> Tensor:
        update = torch.zeros_like(start)
        update[context.client] = _sign(context.round) * self.ask * float(examples.inputs.sum())
        return update


def _sighting(included: NDArray[np.bool_], scores: Tensor, ledger: Ledger, view: View) -> Sighting:
    claimed = ledger.report()[view].worst.epsilon
    return Sighting(included=included, scores=scores.numpy(), claimed_epsilon=claimed, delta=ledger.delta)


def _coins(experiment: Experiment, canaries: int) -> NDArray[np.bool_]:
    return np.random.default_rng(stream_id("canary coins", experiment.seed)).random(canaries) < 0.5


def _rows(inputs: Tensor) -> Examples:
    return Examples(inputs=inputs, labels=torch.ones(len(inputs), dtype=torch.int64), normalisation=IDENTITY)


def _sign(round_number: int) -> float:
    return 1.0 - 2.0 * (round_number % 2)
