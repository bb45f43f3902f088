"""How good the model is after a round: measured for free on public rows, or released with noise on rows that stay private."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from sordino.engine import class_scores, number_scores
from sordino.engine.charged_evaluation import ChargedEvaluation
from sordino.engine.evaluate import evaluate_as_it_is
from sordino.engine.federation import FederationServer
from sordino.engine.messages import Answer, Request
from sordino.engine.setup import Setup
from sordino.engine.tally import Tally
from sordino.engine.traffic import BYTES_PER_NUMBER
from sordino.privacy.mechanisms import UPDATE


def scores(setup: Setup, federation: FederationServer, model: Tensor, *, round_number: int) -> dict[str, Any]:
    """For a round's metrics: accuracy, AUROC and more on public rows, or a charged accuracy and what is to be known of its noise."""
    evaluation = setup.tariff.evaluation
    if evaluation is None:
        setup.space.write(setup.net, model)
        source = setup.federated.source
        found = evaluate_as_it_is(setup.evaluated(model), source.public_test, setup.device, source.target)
        return {"accuracy": found.accuracy, "auroc": found.auroc, **found.others}
    slots = federation.roster.held_out
    noisy = evaluation.accuracy(_noisy_total(evaluation, federation, model, round_number), slots)
    accuracy, target = min(max(noisy, 0.0), 1.0), setup.federated.source.target
    return {
        "accuracy": accuracy,
        **({} if target is None else {"mae": (1 - accuracy) * target.range}),
        "auroc": None,
        "accuracy_charged": True,
        "accuracy_noise_deviation": evaluation.deviation(sum(slots)),
    }


def _noisy_total(
    evaluation: ChargedEvaluation, federation: FederationServer, model: Tensor, round_number: int
) -> float:
    """The sum of what clients found on their held-out rows: noised by each of them, or by the server."""
    grants = [federation.door.charge(line) for line in evaluation.lines(round_number)]
    everyone = range(evaluation.clients)
    requests = [
        Request(
            kind="score",
            client=client,
            round=round_number,
            model=model,
            upload_shape=(1,),
            clip=evaluation.clip,
            grants={UPDATE: grants[client if len(grants) > 1 else 0].share(client)},
            server_noises=evaluation.summed,
        )
        for client in everyone
    ]
    federation.traffic.down += evaluation.clients * federation.space.size * BYTES_PER_NUMBER
    federation.traffic.up += evaluation.clients * BYTES_PER_NUMBER
    answers = [one for one in federation.transport.exchange(requests) if isinstance(one, Answer)]
    like = torch.zeros(1, dtype=torch.float64)
    tally = Tally(clip=evaluation.clip, like=like, parts=grants[0].parts)
    if evaluation.summed:
        tally.release(federation.door.permit(grants[0], evaluation.mechanism), answers)
    for answer in answers:
        tally.add(answer)
    return float(tally.update.value)


def about_accuracy(last: Mapping[str, Any]) -> dict[str, Any]:
    """What a summary says of its accuracy and beside it, by the metrics of the last round."""
    return {
        **{name: last.get(name) for name in (*class_scores.NAMES, *number_scores.NAMES)},
        "accuracy_charged": last.get("accuracy_charged", False),
        "accuracy_noise_deviation": last.get("accuracy_noise_deviation"),
    }
