"""Where canaries are planted: an experiment's clients, prices and engine, with canary rows in place of everybody's data.

Nothing of the data is read but what a plan reads: the number of rows of each client, which is declared public.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sordino.audit.planting.canary_model import MODEL, TUNING
from sordino.audit.planting.jobs import OVERSHOOT
from sordino.audit.planting.planted import NAME
from sordino.core import Private, Unit
from sordino.data.examples import IDENTITY, Examples, Normalisation
from sordino.data.partition import Partition
from sordino.data.source import Source, describe
from sordino.engine.dealing import Federated, client_sizes
from sordino.engine.resolved import Resolved, resolve
from sordino.engine.setup import Parts, Setup, in_phase, make_parts
from sordino.engine.tariff import Multipliers
from sordino.experiment import Experiment
from sordino.experiment import experiment as checked
from sordino.models import FlatSpace
from sordino.tuning import Task

MOST_EXAMPLES, BLANKS, ROOM = 400, 128, 4e7
"""Canary rows of one run; features that no row has, where noise shows alone; numbers that all rows together may hold."""
ANCHOR_FEATURES = 64

Coins = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class Ground:
    """An experiment made ready for canaries."""

    resolved: Resolved
    """With the method planted."""
    sizes: list[int]
    task: Task
    vocabulary: int
    parts: Parts
    unit: Unit
    canaries: int
    anchors: Examples | None = None

    @property
    def experiment(self) -> Experiment:
        return self.resolved.experiment

    @property
    def clients(self) -> int:
        return len(self.sizes)

    def setup(self, coins: Coins, *, seed: int) -> Setup:
        """The run with these canaries in, whose noise comes from this seed."""
        experiment = self.experiment.model_copy(update={"seed": seed})
        resolved = dataclasses.replace(self.resolved, experiment=experiment)
        data = self._data(coins)
        net = self.parts.model.net.to(resolved.device).train()
        ready = Setup(
            resolved=resolved,
            phases=self.parts.phases,
            loaded=data,
            federated=data,
            whole=net,
            net=net,
            space=FlatSpace(net),
            tariff=self.parts.tariff,
            loaded_anchors=self.anchors,
            anchors=self.anchors,
        )
        return in_phase(ready, self.parts.phases[0])

    def _data(self, coins: Coins) -> Federated:
        rows = _coin_rows(self, coins) if self.unit == "client" else _blank_rows(self)
        source = Source(
            name="canaries",
            train=rows,
            test=None,
            classes=self.task.classes,
            shape=self.task.shape,
            kind=_kind(rows.inputs),
            visibility="public",
            class_names=tuple(map(str, range(self.task.classes))),
            vocabulary=self.vocabulary,
        )
        offsets = np.concatenate([[0], np.cumsum(self.sizes)])
        partition = Partition(np.arange(offsets[-1]), offsets)
        if self.unit == "client":
            return CanaryClients(source=source, partition=partition)
        ask = OVERSHOOT * self.parts.tariff.clip.bound
        return CanaryRows(source=source, partition=partition, coins=coins, ask=ask)


@dataclass(frozen=True, kw_only=True)
class CanaryClients(Federated):
    """Row k is all that client k works on; what is declared of sizes stays."""

    def client(self, client: int) -> Private[Examples]:
        return Private(self.source.train.take(torch.tensor([client])))


@dataclass(frozen=True, kw_only=True)
class CanaryRows(Federated):
    """Canary j is a row of client j mod K, with feature j alone; all other rows are blank."""

    coins: Coins
    ask: float

    def client(self, client: int) -> Private[Examples]:
        size, clients = int(self.partition.sizes[client]), self.partition.clients
        own = np.arange(client, len(self.coins), clients)[:size]
        inputs = torch.zeros(size, self.source.shape[0])
        inputs[torch.arange(len(own)), torch.from_numpy(own)] = self.ask * torch.from_numpy(self.coins[own]).float()
        return Private(Examples(inputs=inputs, labels=torch.ones(size, dtype=torch.int64), normalisation=IDENTITY))


def make_ground(experiment: Experiment, *, scratch: Path, settled: Multipliers | None = None) -> Ground:
    """Work out prices as a plan does, and plant the method; `scratch` is a folder for what canaries need on disk.

    A run that is audited afterwards has its noise `settled`.
    """
    resolved = resolve(experiment)
    facts = describe(resolved.source, seed=experiment.seed, test=resolved.test_rows)
    sizes = client_sizes(resolved)
    task = Task(shape=facts.shape, classes=facts.classes)
    parts = make_parts(resolved, task=task, vocabulary=facts.vocabulary, sizes=sizes, settled=settled)
    settled = parts.tariff.multipliers
    period = parts.tariff.sampler.period
    if resolved.method.unit == "client":
        planted = resolve(_with(experiment, method=_planted(experiment, period)))
        clients, vocabulary = len(sizes), facts.vocabulary
        canaries, anchors = clients, None
    else:
        canaries = int(min(MOST_EXAMPLES, sum(sizes), max(16, ROOM // sum(sizes) - BLANKS)))
        table, task, anchors = _for_examples(experiment, resolved, canaries, period, scratch)
        planted, vocabulary = resolve(table), 0
    planted_parts = make_parts(planted, task=task, vocabulary=vocabulary, sizes=sizes, settled=settled)
    return Ground(
        resolved=planted_parts.resolved,
        sizes=sizes,
        task=task,
        vocabulary=vocabulary,
        parts=planted_parts,
        unit=resolved.method.unit,
        canaries=canaries,
        anchors=anchors,
    )


def _planted(experiment: Experiment, period: int) -> dict[str, Any]:
    return {"name": NAME, "inner": experiment.method, "rounds": experiment.rounds, "period": period}


def _with(experiment: Experiment, **changes: Any) -> Experiment:
    table = experiment.model_dump(mode="json")
    table["engine"]["keep_features"] = False
    table["data"]["test"] = None
    return checked({**table, **changes})


def _for_examples(
    experiment: Experiment, resolved: Resolved, canaries: int, period: int, scratch: Path
) -> tuple[Experiment, Task, Examples | None]:
    groups = len(resolved.tuning.clip_groups())
    needed = resolved.mechanism.public_examples()
    features = canaries + BLANKS + (ANCHOR_FEATURES if needed is not None else 0)
    privacy, anchors = experiment.privacy.model_dump(mode="json"), None
    if needed is not None:
        anchors = _anchor_rows(needed.count, features)
        path = scratch / "anchors.npz"
        np.savez(path, x_train=anchors.inputs.numpy(), y_train=np.arange(needed.count) % 2)
        privacy["mechanism"] = {**experiment.privacy.mechanism_table, "public": {"source": str(path)}}
    table = _with(
        experiment,
        method=_planted(experiment, period),
        model={"name": MODEL, "maps": max(1, groups)},
        tuning={"name": TUNING, "groups": groups},
        start={"name": "scratch"},
        privacy=privacy,
    )
    return table, Task(shape=(features,), classes=2), anchors


def _anchor_rows(count: int, features: int) -> Examples:
    """Public rows that share no feature with a canary."""
    inputs = torch.zeros(count, features)
    generator = torch.Generator().manual_seed(1)
    inputs[:, -ANCHOR_FEATURES:] = torch.randn(count, ANCHOR_FEATURES, generator=generator)
    return Examples(inputs=inputs, labels=torch.arange(count) % 2, normalisation=IDENTITY)


def _coin_rows(ground: Ground, coins: Coins) -> Examples:
    """One row for each client, blank but for its label, which is the coin."""
    shape = (ground.clients, *ground.task.shape)
    if ground.vocabulary:
        inputs = torch.zeros(shape, dtype=torch.int64)
    elif len(shape) == 4:
        inputs = torch.zeros(shape, dtype=torch.uint8)
    else:
        inputs = torch.zeros(shape)
    plain = inputs.dtype != torch.uint8
    normalisation = IDENTITY if plain else Normalisation()
    return Examples(inputs=inputs, labels=torch.from_numpy(coins).long(), normalisation=normalisation)


def _blank_rows(ground: Ground) -> Examples:
    """What stands for the data set as a whole; clients' rows are made when they are asked for."""
    return Examples(
        inputs=torch.zeros(1, *ground.task.shape), labels=torch.ones(1, dtype=torch.int64), normalisation=IDENTITY
    )


def _kind(inputs: Tensor) -> Any:
    return {torch.int64: "text", torch.uint8: "image"}.get(inputs.dtype, "tabular")
