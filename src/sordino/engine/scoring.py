"""How good the model is after a round: measured for free on public rows, or released with noise on rows that stay private."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from sordino.core import Private
from sordino.data.examples import Examples
from sordino.data.partition import Partition
from sordino.engine import class_scores
from sordino.engine.charged_evaluation import ChargedEvaluation, contribution
from sordino.engine.evaluate import correct_as_it_is, evaluate
from sordino.engine.federation import BYTES_PER_NUMBER, Traffic
from sordino.engine.schedule import Task, Workers
from sordino.engine.setup import Setup
from sordino.methods.method import ClientContext
from sordino.privacy.door import Door


def scores(
    setup: Setup, model: Tensor, *, round_number: int, door: Door, workers: Workers, traffic: Traffic
) -> dict[str, Any]:
    """For a round's metrics: accuracy, AUROC and more on public rows, or a charged accuracy and what is to be known of its noise."""
    evaluation, held_out = setup.tariff.evaluation, setup.federated.held_out
    if evaluation is None or held_out is None:
        setup.space.write(setup.net, model)
        found = evaluate(setup.net, setup.federated.source.public_test, setup.device)
        return {"accuracy": found.accuracy, "auroc": found.auroc, **found.others}
    slots = [int(size) for size in held_out.sizes]
    contributions = _contributions(setup, evaluation, held_out, model, round_number, workers)
    noisy = evaluation.release(contributions, slots, door=door, round_number=round_number)
    traffic.down += len(slots) * setup.space.size * BYTES_PER_NUMBER
    traffic.up += len(slots) * BYTES_PER_NUMBER
    return {
        "accuracy": min(max(noisy, 0.0), 1.0),
        "auroc": None,
        "accuracy_charged": True,
        "accuracy_noise_deviation": evaluation.deviation(sum(slots)),
    }


def _contributions(
    setup: Setup,
    evaluation: ChargedEvaluation,
    held_out: Partition,
    model: Tensor,
    round_number: int,
    workers: Workers,
) -> list[Private[float]]:
    """What each client finds on its own held-out rows."""

    def work(task: Task, context: ClientContext) -> Private[float]:
        def count(own: Examples) -> float:
            context.space.write(context.net, task.start)
            right = int(correct_as_it_is(context.net, own, context.device).sum())
            return contribution(right=right, filled=len(own), slots=task.size, unit=evaluation.unit)

        return task.data.map(count)

    tasks = [
        Task(client=k, round=round_number, size=int(size), start=model, data=setup.federated.held_out_of(k))
        for k, size in enumerate(held_out.sizes)
    ]
    return workers.each(tasks, work)


def about_accuracy(last: Mapping[str, Any]) -> dict[str, Any]:
    """What a summary says of its accuracy and beside it, by the metrics of the last round."""
    return {
        **{name: last.get(name) for name in class_scores.NAMES},
        "accuracy_charged": last.get("accuracy_charged", False),
        "accuracy_noise_deviation": last.get("accuracy_noise_deviation"),
    }
