"""How well each client does: on public rows in its own mix of labels, and on its own rows. Non-private diagnostics of a simulation."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from sordino.core import Private
from sordino.data.examples import Examples
from sordino.data.partition import Partition
from sordino.engine.client.personal_store import PersonalStore, show_to_researcher
from sordino.engine.evaluate import accuracy_as_it_is, correct_as_it_is, outputs
from sordino.engine.setup import Setup
from sordino.engine.simulate.workers import Place, Workers
from sordino.gradients.losses import mean_loss
from sordino.methods.method import ClientContext, State
from sordino.methods.personal import head_space
from sordino.models import Net

Score = Callable[[Net, Examples, torch.device], float]

TRAINING_LOSS = "non_private_training_loss"
OWN_ROWS = "non_private_own_rows"


def client_figures(
    setup: Setup, workers: Workers, number: int, state: State, personal: PersonalStore | None
) -> dict[str, Any]:
    """Labelled entries for a round's metrics, of what somebody asked for."""
    models = OwnModels(setup=setup, workers=workers, number=number, state=state, personal=personal)
    return {**_in_own_mix(models), **_on_own_rows(models)}


@dataclass(frozen=True, kw_only=True)
class OwnModels:
    """Every client's model after a round, at the client, and figures of it."""

    setup: Setup
    workers: Workers
    number: int
    state: State
    personal: PersonalStore | None

    def figures(
        self, rows_of: Callable[[int], Private[Examples]], score: Score, *, clients: int, first: int = 0
    ) -> list[float]:
        """The score of clients `first`, `first` + 1, ... on rows by their place in this list."""
        setup, method, state = self.setup, self.setup.method, self.state
        first_personal = method.first_personal(setup.net).to(setup.device)
        own_model = method.welcome if first else method.personalise
        head = head_space(setup.net).read(setup.net)

        def work(number: int, context: ClientContext) -> Private[float]:
            kept = None if first else self.personal
            own = Private(first_personal) if kept is None else kept.of(first + number)

            def scored(known: tuple[tuple[Examples, Tensor], Examples]) -> float:
                (examples, personal), rows = known
                own_model(state, personal, examples, context)
                result = score(context.net, rows, context.device)
                head_space(context.net).write(context.net, head)
                return result

            return setup.federated.client(first + number).pair(own).pair(rows_of(number)).map(scored)

        places = [Place(client=first + k, round=self.number, size=0) for k in range(clients)]
        scores = self.workers.each(places, work)
        return show_to_researcher(scores, simulation=setup.experiment.privacy.noise_source == "seeded")


def _in_own_mix(models: OwnModels) -> dict[str, Any]:
    """On public test rows in each client's own mix of labels, and apart from them of those that join late."""
    found = models.setup.federated.match_test_rows(models.setup.resolved)
    if found is None:
        return {}
    roster, newcomers = found
    figures = spread(_matched(models, roster, first=0))
    if newcomers is not None:
        figures["newcomers"] = spread(_matched(models, newcomers, first=roster.clients))
    return {"non_private_clients": figures}


def _matched(models: OwnModels, tests: Partition, *, first: int) -> list[float]:
    setup = models.setup
    public = setup.federated.source.public_test
    if not setup.method.personalised:
        right = correct_as_it_is(setup.evaluated(models.state["model"]), public, setup.device).float()
        return [float(right[torch.from_numpy(tests.of(k))].mean()) for k in range(tests.clients)]

    def rows_of(number: int) -> Private[Examples]:
        return Private(public.take(torch.from_numpy(tests.of(number))))

    return models.figures(rows_of, accuracy_as_it_is, clients=tests.clients, first=first)


def _on_own_rows(models: OwnModels) -> dict[str, Any]:
    """On rows that clients kept from training, and the loss on those that they train on."""
    federated = models.setup.federated
    clients, found = federated.partition.clients, dict[str, Any]()
    if (split := federated.own_split) is not None:
        parts = {"validation": split.validation, "test": split.test}
        found[OWN_ROWS] = {
            name: spread(models.figures(partial(federated.own_rows, of=part), accuracy_as_it_is, clients=clients))
            for name, part in parts.items()
            if part is not None
        }
    if models.setup.experiment.engine.training_loss:
        losses = models.figures(federated.client, _loss, clients=clients)
        found[TRAINING_LOSS] = {
            "clients": clients,
            "mean": statistics.mean(losses),
            "standard_deviation": statistics.stdev(losses) if clients > 1 else 0.0,
        }
    return found


def _loss(net: Net, examples: Examples, device: torch.device) -> float:
    return float(mean_loss(outputs(net, examples, device), examples.labels))


def spread(accuracies: Sequence[float]) -> dict[str, Any]:
    """The worst tenth is the mean of the lowest tenth of clients, at least one."""
    lowest = sorted(accuracies)[: math.ceil(len(accuracies) / 10)]
    return {
        "clients": len(accuracies),
        "mean": statistics.mean(accuracies),
        "standard_deviation": statistics.stdev(accuracies) if len(accuracies) > 1 else 0.0,
        "worst_tenth": statistics.mean(lowest),
    }
