"""From an experiment to the parts of a run."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sordino.core import Private, SordinoError
from sordino.data.examples import Examples
from sordino.data.overlap import refuse_overlap
from sordino.data.partition import PARTITIONERS, Partition
from sordino.data.public import public_source
from sordino.data.source import Source, SourceSettings, load
from sordino.engine.features import cached_outputs, frozen_body, with_cached_features
from sordino.engine.tariff import Tariff, make_tariff
from sordino.experiment import Experiment
from sordino.methods import METHODS, Method
from sordino.models import FlatSpace, Net, build, validate
from sordino.pretrain import STARTS
from sordino.pretrain.start import Progress, StartContext
from sordino.privacy.gep import Gep
from sordino.privacy.mechanisms import Mechanism
from sordino.privacy.streams import stream_id
from sordino.settings import member, validated
from sordino.tuning import TUNINGS


@dataclass(frozen=True, kw_only=True)
class Federated:
    """A data set and who holds which rows of it."""

    source: Source
    partition: Partition

    @property
    def sizes(self) -> list[int]:
        return [int(size) for size in self.partition.sizes]

    def client(self, client: int) -> Private[Examples]:
        return Private(self.source.train.take(torch.from_numpy(self.partition.of(client))))


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
    anchors: Examples | None = None
    """Public examples, for mechanisms that need some."""


def source_settings(experiment: Experiment) -> SourceSettings:
    data = experiment.data
    return validated(
        SourceSettings, {**data.options, "source": data.source, "visibility": data.visibility}, where="data.options"
    )


def make_method(experiment: Experiment) -> Method:
    method: Method = member(METHODS, experiment.method, where="method")
    return method


def client_count(experiment: Experiment, method: Method, groups: Mapping[str, int]) -> int:
    """How many clients there are: as many as asked for, as the client column has values, or one place for all."""
    if method.pooled:
        return 1
    column = source_settings(experiment).client_column or ""
    if experiment.data.partition == {"name": "column"} and column in groups:
        return groups[column]
    return experiment.data.clients


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
    partition = partitioner.split(source.train.labels.numpy(), column, clients=clients, rng=rng)
    return Federated(source=source, partition=partition)


def make_net(
    experiment: Experiment, *, shape: tuple[int, ...], classes: int, vocabulary: int, seed: int | None = None
) -> Net:
    """The experiment's model, from its seed or another."""
    settings: dict[str, Any] = dict(experiment.model)
    name = settings.pop("name", None)
    if not isinstance(name, str):
        raise SordinoError(f"[model] needs a name such as 'mlp', but {name!r} came.")
    drawn_from = experiment.seed if seed is None else seed
    return build(name, shape=shape, classes=classes, vocabulary=vocabulary, seed=drawn_from, **settings)


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


def start_context(
    experiment: Experiment, source: Source, *, device: torch.device, folder: Path, progress: Progress
) -> StartContext:
    """What a start may know of an experiment on this data set."""

    def build_as_ours(classes: int, seed: int) -> Net:
        return make_net(experiment, shape=source.shape, classes=classes, vocabulary=source.vocabulary, seed=seed)

    return StartContext(
        shape=source.shape,
        classes=source.classes,
        seed=experiment.seed,
        device=device,
        folder=folder,
        progress=progress,
        model=experiment.model,
        build=build_as_ours,
        refuse_overlap=partial(refuse_overlap, source),
    )


def public_anchors(mechanism: Mechanism, private: Source, *, seed: int) -> Examples | None:
    """Public examples for a mechanism that spans a subspace with them, with labels that the private model knows."""
    if not isinstance(mechanism, Gep):
        return None
    public = public_source(mechanism.public, shape=private.shape, seed=seed, where="privacy.mechanism.public")
    refuse_overlap(private, public)
    if mechanism.anchors > len(public.train):
        raise SordinoError(
            f"[privacy] mechanism asks for {mechanism.anchors} anchors, but the public set {public.name!r} has "
            f"{len(public.train)} examples; lower anchors."
        )
    generator = torch.Generator().manual_seed(stream_id("anchors", seed))
    chosen = public.train.take(torch.randperm(len(public.train), generator=generator)[: mechanism.anchors])
    if public.classes == private.classes:
        return chosen
    labels = torch.randint(private.classes, (len(chosen),), generator=generator)
    return dataclasses.replace(chosen, labels=labels)


def prepare(experiment: Experiment, *, folder: Path, progress: Progress) -> Setup:
    """Build and check all parts. Nothing is written, and no private value leaves."""
    device = make_device(experiment.engine.device)
    method = make_method(experiment)
    start = member(STARTS, experiment.start, where="start")
    federated = federate(experiment, method)
    source = federated.source
    net = make_net(experiment, shape=source.shape, classes=source.classes, vocabulary=source.vocabulary)
    names = trainable_names(experiment, net)
    tariff = make_tariff(experiment, method, clients=federated.partition.clients, sizes=federated.sizes)
    start.prepare(net, start_context(experiment, source, device=device, folder=folder, progress=progress))
    net.to(device)
    whole = net
    anchors = public_anchors(tariff.mechanism, source, seed=experiment.seed)
    if frozen_body(net, names):
        anchors = None if anchors is None else cached_outputs(net, anchors, device)
        net, source = with_cached_features(net, source, device)
        federated = Federated(source=source, partition=federated.partition)
    return Setup(
        experiment=experiment,
        method=method,
        federated=federated,
        whole=whole,
        net=net,
        space=FlatSpace(net, names),
        tariff=tariff,
        device=device,
        anchors=anchors,
    )
