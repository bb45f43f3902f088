"""Pre-training by itself: the weights an experiment would start from, and a record of where they come from."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from sordino.core import SordinoError
from sordino.data.beside import relative_to
from sordino.engine.building import start_context
from sordino.engine.dealing import load_source
from sordino.engine.evaluate import accuracy
from sordino.engine.resolved import resolve
from sordino.experiment import Experiment
from sordino.models.weights import load_weights
from sordino.outside import look_beside
from sordino.pretrain import STARTS
from sordino.pretrain.provenance import as_metadata, public_training
from sordino.pretrain.start import Progress
from sordino.threads import compute_threads, threads_of
from sordino.tuning import Task


def pretrain(experiment: Experiment, out: Path, *, folder: Path, progress: Progress) -> dict[str, Any]:
    """Train what [start] names and write weights and record into `out`; returns the record.

    Of the private set only the shape and the number of classes are used, and digests, to refuse a public set that overlaps it.
    """
    look_beside(folder)
    resolved = resolve(experiment)
    start, device = resolved.start, resolved.device
    if not start.trains or start.public_data is None:
        kinds = ", ".join(one.name for one in STARTS if one.build.trains)
        raise SordinoError(
            f"[start] is {experiment.start['name']!r}, which trains nothing; name one of {kinds} to pre-train."
        )
    with relative_to(folder):
        source = load_source(resolved)
        task = resolved.tuning.source_task(Task(shape=source.shape, classes=source.classes))
        context = start_context(resolved, source, task, folder=folder, progress=progress)
        with compute_threads(threads_of(experiment.engine.workers)):
            trained = start.train(context)
        assert trained is not None
        record = trained.record
        net = context.build(record["classes"], record["seed"]).to(device)
        load_weights(net, trained.weights, origin="the pre-trained model")
        public = start.load_public(context)
        assert public is not None
        origin = as_metadata((public_training(public), *start.lineage(folder)))
    record = {**record, "public_test_accuracy": accuracy(net, public.public_test, device)}
    dataclasses.replace(trained, record=record).write(out, provenance=origin)
    return record
