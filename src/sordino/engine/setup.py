"""From an experiment to the parts of a run."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sordino.core import Private, SordinoError
from sordino.data.examples import Examples
from sordino.data.partition import PARTITIONERS, Partition
from sordino.data.source import Source, SourceSettings, load
from sordino.engine.features import frozen_body, with_cached_features
from sordino.engine.tariff import Tariff, make_tariff
from sordino.experiment import Experiment
from sordino.methods import METHODS, Method
from sordino.methods.personal import Personalised
from sordino.models import FlatSpace, Net, build, validate
from sordino.pretrain import STARTS
from sordino.pretrain.start import Progress, StartContext
from sordino.settings import member, validated
from sordino.tuning import TUNINGS


@dataclass(frozen=True, kw_only=True)
class Federated:
    """A data set and who holds which rows of it."""

    source: Source
    partition: Partition
    newcomers: Partition | None = None
    """Clients that join when training is over, numbered on from the others."""

    @property
    def sizes(self) -> list[int]:
        return [int(size) for size in self.partition.sizes]

    def client(self, client: int) -> Private[Examples]:
        if self.newcomers is not None and client >= self.partition.clients:
            rows = self.newcomers.of(client - self.partition.clients)
        else:
            rows = self.partition.of(client)
        return Private(self.source.train.take(torch.from_numpy(rows)))


@dataclass(frozen=True, kw_only=True)
class Setup:
    """Everything a run needs, built and checked before anything is written."""

    experiment: Experiment
    method: Method
    federated: Federated
    whole: Net
    """The complete model, as it is saved."""
    net: Net
    """What is trained: the whole, or its head on cached features."""
    space: FlatSpace
    tariff: Tariff
    device: torch.device


def source_settings(experiment: Experiment) -> SourceSettings:
    data = experiment.data
    return validated(
        SourceSettings, {**data.options, "source": data.source, "visibility": data.visibility}, where="data.options"
    )


def make_method(experiment: Experiment) -> Method:
    method: Method = member(METHODS, experiment.method, where="method")
    return method


def client_count(experiment: Experiment, method: Method, groups: Mapping[str, int]) -> int:
    """How many clients train: as many as asked for, as the client column has values, or one place for all."""
    if method.pooled:
        return 1
    column = source_settings(experiment).client_column or ""
    if experiment.data.partition == {"name": "column"} and column in groups:
        return groups[column] - experiment.data.late_clients
    return experiment.data.clients - experiment.data.late_clients


def federate(experiment: Experiment, method: Method) -> Federated:
    """Load the data and deal them out to clients, or leave them in one place."""
    source = load(source_settings(experiment), seed=experiment.seed)
    groups = {name: len(np.unique(values)) for name, values in source.columns.items()}
    clients = client_count(experiment, method, groups)
    partitioner = member(
        PARTITIONERS, {"name": "iid"} if method.pooled else experiment.data.partition, where="data.partition"
    )
    rng = np.random.default_rng([experiment.seed, 1])
    column = source.columns.get(source_settings(experiment).client_column or "")
    late = 0 if method.pooled else experiment.data.late_clients
    partition = partitioner.split(source.train.labels.numpy(), column, clients=clients + late, rng=rng)
    roster, newcomers = partition.split_at(clients)
    return Federated(source=source, partition=roster, newcomers=newcomers if late else None)


def make_net(experiment: Experiment, *, shape: tuple[int, ...], classes: int, vocabulary: int) -> Net:
    settings: dict[str, Any] = dict(experiment.model)
    name = settings.pop("name", None)
    if not isinstance(name, str):
        raise SordinoError(f"[model] needs a name such as 'mlp', but {name!r} came.")
    return build(name, shape=shape, classes=classes, vocabulary=vocabulary, seed=experiment.seed, **settings)


def make_device(name: str) -> torch.device:
    try:
        device = torch.device(name)
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise SordinoError(
            f"The device {name!r} cannot be used here ({str(error).splitlines()[0]}); set [engine] device = 'cpu'."
        ) from error
    return device


def trainable_names(experiment: Experiment, net: Net) -> list[str]:
    names: list[str] = member(TUNINGS, experiment.tuning, where="tuning").trainable(net)
    validate(net, names)
    return names


def shared_space(experiment: Experiment, method: Method, net: Net, names: Sequence[str]) -> FlatSpace:
    """What the federation trains together: all that is trained, less the head where it stays with its client."""
    if not isinstance(method, Personalised):
        return FlatSpace(net, names)
    head = set(net.parts()["head"]) if method.head_stays_home else set()
    space = FlatSpace(net, [name for name in names if name not in head])
    method.check(net, space)
    if method.keeps_state and experiment.privacy.sampler == "fixed-size":
        raise SordinoError(
            "What clients keep makes a round depend on who was drawn before, and fixed-size draws are not proven private "
            "then; set [privacy] sampler = 'poisson' or 'everyone'."
        )
    return space


def prepare(experiment: Experiment, *, folder: Path, progress: Progress) -> Setup:
    """Build and check all parts. Nothing is written, and no private value leaves."""
    device = make_device(experiment.engine.device)
    method = make_method(experiment)
    start = member(STARTS, experiment.start, where="start")
    federated = federate(experiment, method)
    source = federated.source
    net = make_net(experiment, shape=source.shape, classes=source.classes, vocabulary=source.vocabulary)
    names = trainable_names(experiment, net)
    space = shared_space(experiment, method, net, names)
    tariff = make_tariff(experiment, method, clients=federated.partition.clients, sizes=federated.sizes)
    start.prepare(
        net,
        StartContext(
            shape=source.shape,
            classes=source.classes,
            seed=experiment.seed,
            device=device,
            folder=folder,
            progress=progress,
        ),
    )
    net.to(device)
    whole = net
    if frozen_body(net, names):
        net, source = with_cached_features(net, source, device)
        federated = dataclasses.replace(federated, source=source)
        space = FlatSpace(net, space.names)
    return Setup(
        experiment=experiment,
        method=method,
        federated=federated,
        whole=whole,
        net=net,
        space=space,
        tariff=tariff,
        device=device,
    )
