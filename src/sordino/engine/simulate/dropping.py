"""Clients that do not answer, drawn by a simulation: whom a round loses, and what a plan says of it."""

from __future__ import annotations

import random

from sordino.core import SordinoError
from sordino.engine.messages import Missing, Request
from sordino.experiment import ClientsSection, Experiment
from sordino.privacy.streams import stream_id

WORK = frozenset({"update", "support", "steps"})
"""Requests that can be missed: those of a round of training."""


class Dropping:
    """Decides by coins of its own, named by client and round, who is missing; the same again after a restart."""

    def __init__(self, clients: ClientsSection, seed: int) -> None:
        self._clients, self._seed = clients, seed

    def missing(self, request: Request) -> Missing | None:
        """Why this client does not answer, if it does not."""
        if request.kind not in WORK or not self.chance(request.client):
            return None
        if self._coin("drop", request.round, request.client) >= self.chance(request.client):
            return None
        return Missing(client=request.client, because="it dropped out, as [clients] of this simulation says")

    def chance(self, client: int) -> float:
        """How likely this client misses a round: slow ones miss every second one."""
        is_slow = self._coin("slow", client) < self._clients.slow
        return max(self._clients.dropout, 0.5 if is_slow else 0.0)

    def _coin(self, *name: str | int) -> float:
        return random.Random(stream_id("clients", self._seed, *name)).random()


def check_dropping(experiment: Experiment) -> dict[str, str]:
    """What a plan says of clients that will be missing; refused where clients are real."""
    clients = experiment.clients
    if not clients.dropout and not clients.slow:
        return {}
    if experiment.engine.name != "simulate":
        raise SordinoError(
            f"[clients] dropout and slow make up absences in simulations, but [engine] name is {experiment.engine.name!r}, where clients "
            "are real; leave them out."
        )
    lost = clients.slow * max(clients.dropout, 0.5) + (1 - clients.slow) * clients.dropout
    return {
        "drop-outs": f"about {lost:.0%} of all answers are missing; ε stays, because whoever is asked is charged, and so does the noise, "
        "because empty seats are noised by the server; what is averaged shrinks by as much"
    }
