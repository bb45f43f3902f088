"""The attack on an experiment, or on a finished run of it: what an onlooker gets, with and without its defence."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sordino.audit.attacks.inversion import AttackName
from sordino.audit.attacks.inverting import ATTACKS, invert_experiment
from sordino.audit.attacks.membership import Trained, infer_membership
from sordino.audit.target import Target
from sordino.audit.trade_off import Claim
from sordino.core import SordinoError
from sordino.data.beside import relative_to
from sordino.engine.building import make_model
from sordino.engine.dealing import federate
from sordino.engine.record import RunRecord
from sordino.engine.resolved import resolve
from sordino.engine.run import run_experiment
from sordino.engine.setup import make_parts
from sordino.models.weights import load_weights
from sordino.outside import look_beside
from sordino.pretrain.file import read_weights
from sordino.privacy.pricing import neighbours_in, unbounded
from sordino.tuning import Task

PICTURE = "attack.png"
Progress = Callable[[str, int, int], None]


def attack_target(
    target: Target,
    place: Path,
    *,
    attacks: Sequence[AttackName] = ATTACKS,
    batches: Sequence[int] = (1, 4),
    iterations: int = 300,
    membership: bool = True,
    shadows: int = 16,
    epochs: int = 30,
    progress: Progress = lambda stage, done, total: None,
) -> dict[str, Any]:
    """Invert gradients of the experiment's model, and infer who was trained on from the model of a run of it.

    What is found goes into the folder `place`; of an experiment file, the run that membership needs is made there first.
    """
    begin = time.perf_counter()
    experiment = target.experiment
    look_beside(target.folder)
    if resolve(experiment).source.number is not None:
        raise SordinoError(
            "These attacks ask how sure a model is of a class, but [data.options] target says that it learns a number; try them on "
            "classes, and use audit here."
        )
    inversions, members = [], []
    with relative_to(target.folder):
        if attacks:
            inversions = invert_experiment(
                experiment,
                attacks=attacks,
                batches=batches,
                iterations=iterations,
                picture=place.resolve() / PICTURE,
                progress=progress,
            )
        if membership:
            run = _trained(target, place.resolve(), progress)
            members = infer_membership(run, shadows=shadows, epochs=epochs, progress=progress)
    return {
        "schema": 1,
        "kind": "attack",
        "name": experiment.name,
        "method": experiment.method["name"],
        "unit": resolve(experiment).method.unit,
        "seconds": time.perf_counter() - begin,
        "picture": PICTURE if (place / PICTURE).exists() else None,
        "inversion": [one.to_json() for one in inversions],
        "membership": members,
        "holds": all(one["holds"] for one in members),
    }


def _trained(target: Target, place: Path, progress: Progress) -> Trained:
    folder = target.run.resolve() if target.run is not None else place / "run"
    record = RunRecord(folder)
    if not folder.exists():
        run_experiment(
            target.experiment,
            folder,
            folder=target.folder,
            watch=lambda moment: progress(moment.stage, moment.done, moment.total),
        )
    if not record.model.exists():
        raise SordinoError(f"{folder} has no finished model to attack; finish the run first.")
    resolved = resolve(target.experiment)
    data = federate(resolved)
    source = data.source
    task = Task(shape=source.shape, classes=source.classes)
    net = resolved.tuning.finish(make_model(resolved, task, vocabulary=source.vocabulary).net)
    load_weights(net, read_weights(record.model), origin=str(record.model))
    parts = make_parts(resolved, task=task, vocabulary=source.vocabulary, sizes=data.sizes, settled=target.settled)
    tariff, privacy = parts.tariff, target.experiment.privacy
    claim = None
    if not unbounded(tariff.price(0, 0).in_view("public").event):
        neighbours = neighbours_in("public", privacy.neighbours)
        claims = [Claim(bill, neighbours, privacy.delta) for bill in tariff.worst_bills("public").values()]
        claim = max(claims, key=lambda one: one.epsilon())
    trained_on = np.sort(data.partition.indices)
    place_of = {int(row): number for number, row in enumerate(trained_on)}
    clients = [
        np.array([place_of[int(row)] for row in data.partition.of(client)]) for client in range(data.partition.clients)
    ]
    return Trained(
        experiment=target.experiment,
        net=net,
        members=source.train.take(torch.from_numpy(trained_on)),
        others=source.public_test,
        clients=clients,
        tariff=tariff,
        claim=claim,
    )
