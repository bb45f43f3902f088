"""The contract of a tuning: it trains parameters that exist, and what it trained is what is saved."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from sordino.engine.evaluate import accuracy
from sordino.engine.robustness import open_subject
from sordino.engine.run import run_experiment
from sordino.experiment import experiment
from sordino.models import Net, build
from sordino.settings import member
from sordino.testing.broken import demand
from sordino.testing.tables import Table, contract_table
from sordino.tuning import TUNINGS, Task, Tuning

CLOSE = 1e-6


def check_what_is_trained(table: Table) -> None:
    """At least one parameter is trained, all of them exist, and the model answers for the private task."""
    net, tuning, task = _made(table)
    trained = tuning.trainable(net)
    demand(bool(trained), "Nothing is trained.")
    strangers = sorted(set(trained) - {name for name, _ in net.named_parameters()})
    demand(not strangers, f"{strangers} are to be trained, but the model has no such parameters.")
    got = tuple(net(torch.rand(2, *task.shape)).shape)
    demand(got == (2, task.classes), f"Logits should have shape {(2, task.classes)}, but got {got}.")


def check_the_phases(table: Table) -> None:
    """Phases follow one another from the first round on, and each trains what the one before it did."""
    net, tuning, _ = _made(table)
    phases = tuning.phases(net, 10)
    begins = [phase.first_round for phase in phases]
    demand(begins == sorted(set(begins)) and begins[0] == 0, f"Phases begin in rounds {begins}.")
    for before, after in pairwise(phases):
        dropped = sorted(set(before.trainable) - set(after.trainable))
        demand(not dropped, f"{dropped} are trained first and not any more from round {after.first_round} on.")


def check_the_saved_model(table: Table) -> None:
    """Training moves what is trained, and the saved model, opened again, is as accurate as the one that was trained."""
    whole = experiment(contract_table({"name": "dp-sgd", "batch_size": 16}, tuning=table))
    with TemporaryDirectory() as folder:
        summary = run_experiment(whole, Path(folder) / "run")
        subject = open_subject(Path(folder) / "run")
    demand(summary["trained_parameters"] > 0, "Nothing was trained.")
    found = accuracy(subject.net, subject.test, torch.device("cpu"))
    demand(
        abs(found - summary["accuracy"]) < CLOSE,
        f"The trained model has accuracy {summary['accuracy']:.3f}, and the saved one {found:.3f}.",
    )


TUNING_CHECKS = (check_what_is_trained, check_the_phases, check_the_saved_model)


def _made(table: Table) -> tuple[Net, Tuning, Task]:
    tuning: Tuning = member(TUNINGS, table, where="tuning")
    task = Task(shape=(1, 8, 8), classes=3)
    source = tuning.source_task(task)
    built = build("mlp", shape=source.shape, classes=source.classes, seed=1, hidden=[6])
    return tuning.wrap(built, task, seed=1), tuning, task
