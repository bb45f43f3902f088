"""How well each client does on test rows in its own mix of labels: a non-private diagnostic of a simulation."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from sordino.core import Private
from sordino.data.examples import Examples
from sordino.data.partition import Partition
from sordino.engine.client.personal_store import PersonalStore, show_to_researcher
from sordino.engine.evaluate import accuracy, correct
from sordino.engine.setup import Setup
from sordino.engine.simulate.workers import Place, Workers
from sordino.methods.method import ClientContext, State
from sordino.methods.personal import head_space


def client_figures(
    setup: Setup, workers: Workers, number: int, state: State, personal: PersonalStore | None
) -> dict[str, Any]:
    """A labelled entry for a round's metrics, or none where nobody asked for it."""
    tests = ClientTests.of(setup, workers)
    return {} if tests is None else {"non_private_clients": tests.figures(number, state, personal)}


@dataclass(frozen=True, kw_only=True)
class ClientTests:
    """Test rows for every client, and for those that join when training is over."""

    setup: Setup
    workers: Workers
    roster: Partition
    newcomers: Partition | None

    @staticmethod
    def of(setup: Setup, workers: Workers) -> ClientTests | None:
        """None where nobody asked for such figures."""
        found = setup.federated.match_test_rows(setup.resolved)
        if found is None:
            return None
        return ClientTests(setup=setup, workers=workers, roster=found[0], newcomers=found[1])

    def figures(self, number: int, state: State, personal: PersonalStore | None) -> dict[str, Any]:
        """Mean, spread and worst tenth over clients, and apart from them over those that join late."""
        roster = self._accuracies(self.roster, 0, number, state, personal)
        if self.newcomers is None:
            return spread(roster)
        late = self._accuracies(self.newcomers, self.roster.clients, number, state, None)
        return {**spread(roster), "newcomers": spread(late)}

    def _accuracies(
        self, tests: Partition, first: int, number: int, state: State, personal: PersonalStore | None
    ) -> list[float]:
        """Of clients `first`, `first` + 1, ...; without a store they have nothing of their own yet."""
        setup = self.setup
        source, method = setup.federated.source, setup.method
        if not method.personalised:
            setup.space.write(setup.net, state["model"])
            right = correct(setup.net, source.public_test, setup.device)
            return [float(right[torch.from_numpy(tests.of(k))].mean()) for k in range(tests.clients)]
        first_personal = method.first_personal(setup.net).to(setup.device)
        own_model = method.welcome if first else method.personalise
        head = head_space(setup.net).read(setup.net)

        def work(number: int, context: ClientContext) -> Private[float]:
            own = Private(first_personal) if personal is None else personal.of(first + number)
            rows = torch.from_numpy(tests.of(number))

            def score(known: tuple[Examples, Tensor]) -> float:
                own_model(state, known[1], known[0], context)
                result = accuracy(context.net, source.public_test.take(rows), context.device)
                head_space(context.net).write(context.net, head)
                return result

            return setup.federated.client(first + number).pair(own).map(score)

        places = [Place(client=first + k, round=number, size=0) for k in range(tests.clients)]
        scores = self.workers.each(places, work)
        return show_to_researcher(scores, simulation=setup.experiment.privacy.noise_source == "seeded")


def spread(accuracies: Sequence[float]) -> dict[str, Any]:
    """The worst tenth is the mean of the lowest tenth of clients, at least one."""
    lowest = sorted(accuracies)[: math.ceil(len(accuracies) / 10)]
    return {
        "clients": len(accuracies),
        "mean": statistics.mean(accuracies),
        "standard_deviation": statistics.stdev(accuracies) if len(accuracies) > 1 else 0.0,
        "worst_tenth": statistics.mean(lowest),
    }
