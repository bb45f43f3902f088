"""Where canaries are planted: an experiment's clients, prices and engine, with canary rows in place of everybody's data.

Nothing of the data is read but what a plan reads: the number of rows of each client, which is declared public.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sordino.audit.planting.canary_model import MODEL, TUNING
from sordino.audit.planting.jobs import OVERSHOOT
from sordino.audit.planting.known import Declared, Known
from sordino.audit.planting.planted import NAME
from sordino.core import Private, Unit
from sordino.data.examples import IDENTITY, Examples, Normalisation
from sordino.data.partition import Partition
from sordino.data.source import Source
from sordino.engine.dealing import Federated
from sordino.engine.resolved import Resolved, resolve
from sordino.engine.setup import Parts, Setup, in_phase, make_parts
from sordino.engine.tariff import Multipliers
from sordino.experiment import Experiment
from sordino.experiment import experiment as checked
from sordino.models import FlatSpace
from sordino.privacy.gep import Gep
from sordino.tuning import Task

MOST_EXAMPLES, BLANKS, ROOM = 400, 128, 4e7
"""Canary rows of one run; features that no row has, where noise shows alone; numbers that all rows together may hold."""
STRANGERS_BASIS = 16
"""Features that public rows share where a mechanism does not say how many dimensions it takes of them."""


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

    def setup(self, coins: Coins, *, seed: int, nodes: Holding | None = None) -> Setup:
        """The run with these canaries in, whose noise comes from this seed; `nodes` hold the canaries' rows where there are some."""
        experiment = self.experiment.model_copy(update={"seed": seed})
        resolved = dataclasses.replace(self.resolved, experiment=experiment)
        here = self._data(coins)
        data: Federated = here if nodes is None else nodes(resolved, here)
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

    def _data(self, coins: Coins) -> CanaryData:
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
        return CanaryRows(source=source, partition=partition, coins=coins, ask=ask, shared=self.shared)

    @property
    def public_features(self) -> int:
        """How many of the last features public rows have, and span a subspace with."""
        return 0 if self.anchors is None else self.task.shape[0] - self.canaries - BLANKS

    @property
    def shared(self) -> int:
        """How many of a client's canaries have a public feature besides their own; as many public features stay without any."""
        return self.public_features - self.public_features // 2 if isinstance(self.parts.tariff.mechanism, Gep) else 0


@dataclass(frozen=True, kw_only=True)
class CanaryData(Federated):
    """Invented rows, so anybody may see them."""

    def canary(self, client: int) -> Examples:
        """What this client works on."""
        raise NotImplementedError

    def client(self, client: int) -> Private[Examples]:
        return Private(self.canary(client))


Holding = Callable[[Resolved, CanaryData], Federated]
"""Has every client's rows held elsewhere, for a run of this experiment."""


@dataclass(frozen=True, kw_only=True)
class CanaryClients(CanaryData):
    """Row k is all that client k works on; what is declared of sizes stays."""

    def canary(self, client: int) -> Examples:
        return self.source.train.take(torch.tensor([client]))


@dataclass(frozen=True, kw_only=True)
class CanaryRows(CanaryData):
    """Canary j is a row of client j mod K, with feature j alone; all other rows are blank.

    Where public rows span a subspace, the first canaries of a client lie half in it: each has one of the public features as well.
    """

    coins: Coins
    ask: float
    shared: int

    def canary(self, client: int) -> Examples:
        size, clients = int(self.partition.sizes[client]), self.partition.clients
        own = np.arange(client, len(self.coins), clients)[:size]
        inputs = torch.zeros(size, self.source.shape[0])
        asked = self.ask * torch.from_numpy(self.coins[own]).float()
        inputs[torch.arange(len(own)), torch.from_numpy(own)] = asked
        first = torch.arange(min(self.shared, len(own)))
        inputs[first, len(self.coins) + BLANKS + first] = asked[first]
        return Examples(inputs=inputs, labels=torch.ones(size, dtype=torch.int64), normalisation=IDENTITY)


def make_ground(
    experiment: Experiment, *, scratch: Path, settled: Multipliers | None = None, declared: Declared = ()
) -> Ground:
    """Work out prices as a plan does, and plant the method; `scratch` is a folder for what canaries need on disk.

    A run that is audited afterwards has its noise `settled`, and its nodes, if it had any, have `declared` their rows.
    """
    resolved = resolve(experiment)
    known = Known.of(resolved, declared)
    task, sizes, vocabulary = known.task, known.sizes, known.vocabulary
    parts = make_parts(resolved, task=task, vocabulary=vocabulary, sizes=sizes, settled=settled)
    settled = parts.tariff.multipliers
    period = parts.tariff.sampler.period
    if resolved.method.unit == "client":
        table = _with(experiment, method=_planted(experiment, period))
        canaries, anchors = len(sizes), None
    else:
        canaries = int(min(MOST_EXAMPLES, sum(sizes), max(16, ROOM // sum(sizes) - BLANKS)))
        table, task, anchors = _for_examples(experiment, resolved, canaries, period, scratch)
        vocabulary = 0
    if experiment.engine.name == "flower":
        table = _at_nodes(table, task, vocabulary, clients=len(sizes), scratch=scratch)
    planted = resolve(table)
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


def _at_nodes(table: Experiment, task: Task, vocabulary: int, *, clients: int, scratch: Path) -> Experiment:
    """The same for nodes that the audit starts itself, with what they must be told of canary rows."""
    test = scratch / "public-test.npz"
    blank = _blank((1, *task.shape), vocabulary)
    np.savez(test, x_train=blank.numpy(), y_train=np.zeros(1, dtype=np.int64))
    options: dict[str, Any] = {"classes": task.classes, **({"vocabulary": vocabulary} if vocabulary else {})}
    data = {"source": "nodes", "clients": clients, "test": {"source": str(test)}, "options": options}
    given = table.model_dump(mode="json")
    return checked({**given, "data": data, "engine": {**given["engine"], "federation": str(scratch / "federation")}})


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
    basis = resolved.mechanism.basis if isinstance(resolved.mechanism, Gep) else STRANGERS_BASIS
    features = canaries + BLANKS + (basis if needed is not None else 0)
    privacy, anchors = experiment.privacy.model_dump(mode="json"), None
    if needed is not None:
        anchors = _anchor_rows(needed.count, features, basis)
        path = scratch / "anchors.npz"
        rows, labels = anchors.inputs.numpy(), np.arange(needed.count) % 2
        np.savez(path, x_train=rows, y_train=labels, x_test=rows, y_test=labels)
        privacy["mechanism"] = {
            **experiment.privacy.mechanism_table,
            "public": {"source": str(path), "visibility": "public"},
        }
    table = _with(
        experiment,
        method=_planted(experiment, period),
        model={"name": MODEL, "maps": max(1, groups)},
        tuning={"name": TUNING, "groups": groups},
        start={"name": "scratch"},
        privacy=privacy,
    )
    return table, Task(shape=(features,), classes=2), anchors


def _anchor_rows(count: int, features: int, basis: int) -> Examples:
    """Public rows with one of the last features each, so that the subspace which they span is known."""
    inputs = torch.zeros(count, features)
    rows = torch.arange(count)
    inputs[rows, features - basis + rows % basis] = 1.0
    return Examples(inputs=inputs, labels=rows % 2, normalisation=IDENTITY)


def _coin_rows(ground: Ground, coins: Coins) -> Examples:
    """One row for each client, blank but for its label, which is the coin."""
    inputs = _blank((ground.clients, *ground.task.shape), ground.vocabulary)
    plain = inputs.dtype != torch.uint8
    normalisation = IDENTITY if plain else Normalisation()
    return Examples(inputs=inputs, labels=torch.from_numpy(coins).long(), normalisation=normalisation)


def _blank(shape: tuple[int, ...], vocabulary: int) -> Tensor:
    """Rows of nothing: words, pixels or numbers."""
    if vocabulary:
        return torch.zeros(shape, dtype=torch.int64)
    return torch.zeros(shape, dtype=torch.uint8) if len(shape) == 4 else torch.zeros(shape)


def _blank_rows(ground: Ground) -> Examples:
    """What stands for the data set as a whole; clients' rows are made when they are asked for."""
    return Examples(
        inputs=torch.zeros(1, *ground.task.shape), labels=torch.ones(1, dtype=torch.int64), normalisation=IDENTITY
    )


def _kind(inputs: Tensor) -> Any:
    return {torch.int64: "text", torch.uint8: "image"}.get(inputs.dtype, "tabular")
