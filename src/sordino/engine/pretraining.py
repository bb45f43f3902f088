"""Pre-training by itself: the weights an experiment would start from, and a record of where they come from."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from sordino.core import SordinoError
from sordino.data.public import public_source
from sordino.engine.evaluate import accuracy
from sordino.engine.setup import load_source, make_device, make_tuning, start_context
from sordino.experiment import Experiment
from sordino.models.weights import load_weights
from sordino.outside import look_beside
from sordino.pretrain import STARTS
from sordino.pretrain.public_training import PublicTraining
from sordino.pretrain.start import Progress
from sordino.settings import member
from sordino.tuning import Task, bridge_of


def pretrain(experiment: Experiment, out: Path, *, folder: Path, progress: Progress) -> dict[str, Any]:
    """Train what [start] names and write weights and record into `out`; returns the record.

    Of the private set only the shape and the number of classes are used, and digests, to refuse a public set that overlaps it.
    """
    look_beside(folder)
    start = member(STARTS, experiment.start, where="start")
    if not isinstance(start, PublicTraining):
        kinds = ", ".join(one.name for one in STARTS if issubclass(one.build, PublicTraining))
        raise SordinoError(
            f"[start] is {experiment.start['name']!r}, which trains nothing; name one of {kinds} to pre-train."
        )
    device = make_device(experiment.engine.device)
    source = load_source(experiment)
    task = bridge_of(make_tuning(experiment)).source_task(Task(shape=source.shape, classes=source.classes))
    context = start_context(experiment, source, task, device=device, folder=folder, progress=progress)
    trained = start.train(context)
    record = trained.record
    net = context.build(record["classes"], record["seed"]).to(device)
    load_weights(net, trained.weights, origin="the pre-trained model")
    public = public_source(start.data, shape=context.shape, seed=record["seed"], where="start.data")
    record = {**record, "public_test_accuracy": accuracy(net, public.public_test, device)}
    dataclasses.replace(trained, record=record).write(out)
    return record
