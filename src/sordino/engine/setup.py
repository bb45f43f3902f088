"""From an experiment to the parts of a run."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sordino.core import Private, SordinoError
from sordino.data.examples import Examples
from sordino.data.overlap import refuse_overlap, refuse_same_source
from sordino.data.partition import PARTITIONERS, Partition
from sordino.data.public import digest, public_settings, public_source
from sordino.data.raw import Array
from sordino.data.source import Source, SourceSettings, labels_and_columns, load
from sordino.engine.choice import charges_before
from sordino.engine.features import cached_outputs, frozen_body, with_cached_features
from sordino.engine.tariff import Tariff, make_tariff
from sordino.experiment import Experiment
from sordino.methods import METHODS, Method
from sordino.methods.method import RoundsAware
from sordino.methods.personal import Personalised
from sordino.models import FlatSpace, Net, build, validate
from sordino.pretrain import STARTS, Start
from sordino.pretrain.provenance import PrivateData, Provenance
from sordino.pretrain.start import Progress, StartContext, StartFacts
from sordino.privacy.gep import Gep
from sordino.privacy.mechanisms import Mechanism
from sordino.privacy.streams import stream_id
from sordino.settings import member, validated
from sordino.tuning import TUNINGS, Bridge, Phase, Task, Tuning, bridge_of, phases_of


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
class Model:
    """A model as it is built and started, and as it is trained: the same, or what the tuning puts around it."""

    built: Net
    built_for: Task
    net: Net
    bridge: Bridge


@dataclass(frozen=True, kw_only=True)
class Setup:
    """Everything a run needs, built and checked before anything is written, as it stands in one phase of the run."""

    experiment: Experiment
    method: Method
    phases: tuple[Phase, ...]
    loaded: Federated
    """The data as they were loaded."""
    federated: Federated
    """The data that are trained on: as loaded, or the outputs of a frozen body."""
    whole: Net
    """The complete model, as it is saved."""
    net: Net
    """What is trained: the whole, or its head on cached features."""
    space: FlatSpace
    tariff: Tariff
    device: torch.device
    loaded_anchors: Examples | None = None
    anchors: Examples | None = None
    """Public examples, for mechanisms that need some: as they were loaded, and as the phase's model takes them."""
    start_warnings: tuple[str, ...] = ()
    lineage: tuple[Provenance, ...] = ()
    """What must be said of the start, and all trainings that went into it."""

    def phase(self, round_number: int) -> Phase:
        """The phase that a round belongs to."""
        return [phase for phase in self.phases if phase.first_round <= round_number][-1]


def source_settings(experiment: Experiment) -> SourceSettings:
    data = experiment.data
    return validated(
        SourceSettings, {**data.options, "source": data.source, "visibility": data.visibility}, where="data.options"
    )


def make_method(experiment: Experiment) -> Method:
    method: Method = member(METHODS, experiment.method, where="method")
    return method.for_rounds(experiment.rounds) if isinstance(method, RoundsAware) else method


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
    partition, newcomers = _dealt_out(experiment, method, source.train.labels.numpy(), source.columns)
    return Federated(source=source, partition=partition, newcomers=newcomers)


def client_sizes(experiment: Experiment, method: Method) -> list[int]:
    """How many rows each client would hold, learnt without reading an example's inputs."""
    labels, columns = labels_and_columns(source_settings(experiment), seed=experiment.seed)
    partition, _ = _dealt_out(experiment, method, labels, columns)
    return [int(size) for size in partition.sizes]


def _dealt_out(
    experiment: Experiment, method: Method, labels: Array, columns: Mapping[str, Array]
) -> tuple[Partition, Partition | None]:
    """The clients that train, and those that join afterwards."""
    clients = client_count(experiment, method, {name: len(np.unique(values)) for name, values in columns.items()})
    partitioner = member(
        PARTITIONERS, {"name": "iid"} if method.pooled else experiment.data.partition, where="data.partition"
    )
    rng = np.random.default_rng([experiment.seed, 1])
    column = columns.get(source_settings(experiment).client_column or "")
    late = 0 if method.pooled else experiment.data.late_clients
    roster, newcomers = partitioner.split(labels, column, clients=clients + late, rng=rng).split_at(clients)
    return roster, newcomers if late else None


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


def make_tuning(experiment: Experiment) -> Tuning:
    tuning: Tuning = member(TUNINGS, experiment.tuning, where="tuning")
    return tuning


def make_phases(experiment: Experiment, net: Net) -> tuple[Phase, ...]:
    phases = phases_of(make_tuning(experiment), net, experiment.rounds)
    for phase in phases:
        validate(net, list(phase.trainable))
    return phases


def make_model(experiment: Experiment, task: Task, *, vocabulary: int) -> Model:
    """The model for a private task, with random weights, if the experiment's start goes with its tuning."""
    bridge = bridge_of(make_tuning(experiment))
    bridge.check_start(str(experiment.start.get("name")))
    built_for = bridge.source_task(task)
    built = make_net(experiment, shape=built_for.shape, classes=built_for.classes, vocabulary=vocabulary)
    return Model(
        built=built,
        built_for=built_for,
        net=bridge.wrap(built, task, seed=experiment.seed),
        bridge=bridge,
    )


def start_context(
    experiment: Experiment, source: Source, task: Task, *, device: torch.device, folder: Path, progress: Progress
) -> StartContext:
    """What a start may know of an experiment on this data set whose model is built for this task."""

    def build_as_ours(classes: int, seed: int) -> Net:
        return make_net(experiment, shape=task.shape, classes=classes, vocabulary=source.vocabulary, seed=seed)

    return StartContext(
        shape=task.shape,
        classes=task.classes,
        seed=experiment.seed,
        device=device,
        folder=folder,
        progress=progress,
        model=experiment.model,
        build=build_as_ours,
        refuse_overlap=partial(refuse_overlap, source),
        private=PrivateData(settings=source_settings(experiment), digest=lambda: digest(source.train)),
    )


def check_start(experiment: Experiment, model: Model, *, folder: Path) -> list[str]:
    """Refuse a start that no run could make, without making it; returns what must be said of it."""
    start: Start = member(STARTS, experiment.start, where="start")
    facts = StartFacts(
        shape=model.built_for.shape,
        classes=model.built_for.classes,
        seed=experiment.seed,
        folder=folder,
        private=PrivateData(settings=source_settings(experiment)),
    )
    start.check(model.built, facts)
    return start.warnings(facts)


def check_anchors(experiment: Experiment, mechanism: Mechanism, *, shape: tuple[int, ...]) -> None:
    """Refuse a mechanism's public set that is not marked so, or is the private one, without reading either."""
    if isinstance(mechanism, Gep):
        settings = public_settings(mechanism.public, shape=shape, where="privacy.mechanism.public")
        refuse_same_source(source_settings(experiment), settings)


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
    if method.uncovered and experiment.privacy.noise == "central":
        raise SordinoError(
            "Noise on each client's own support is drawn by the client; set [privacy] noise = 'distributed' or 'local'."
        )
    return space


def prepare(
    experiment: Experiment, *, folder: Path, progress: Progress, describing: Progress = lambda done, total: None
) -> Setup:
    """Build and check all parts, ready for the first phase. Nothing is written, and no private value leaves.

    `progress` follows the start, `describing` what a frozen body makes of the data.
    """
    device = make_device(experiment.engine.device)
    method = make_method(experiment)
    start: Start = member(STARTS, experiment.start, where="start")
    federated = federate(experiment, method)
    source = federated.source
    task = Task(shape=source.shape, classes=source.classes)
    model = make_model(experiment, task, vocabulary=source.vocabulary)
    net = model.net
    phases = make_phases(experiment, net)
    for phase in phases:
        shared_space(experiment, method, net, phase.trainable)
    tariff = make_tariff(
        experiment,
        method,
        clients=federated.partition.clients,
        sizes=federated.sizes,
        before=charges_before(experiment, make_tuning(experiment), method, federated.sizes),
    )
    context = start_context(experiment, source, model.built_for, device=device, folder=folder, progress=progress)
    start_warnings = start.warnings(context)
    start.prepare(model.built, context)
    net.to(device).train()
    ready = Setup(
        experiment=experiment,
        method=method,
        phases=phases,
        loaded=federated,
        federated=federated,
        whole=net,
        net=net,
        space=FlatSpace(net),
        tariff=tariff,
        device=device,
        loaded_anchors=public_anchors(tariff.mechanism, source, seed=experiment.seed),
        start_warnings=tuple(start_warnings),
        lineage=start.lineage(folder),
    )
    return in_phase(ready, phases[0], describing)


def in_phase(setup: Setup, phase: Phase, describing: Progress = lambda done, total: None) -> Setup:
    """The same run with the model, coordinates and data of one phase, at the whole model's present weights."""
    net, federated, anchors = setup.whole, setup.loaded, setup.loaded_anchors
    space = shared_space(setup.experiment, setup.method, net, phase.trainable)
    if frozen_body(net, phase.trainable):
        anchors = None if anchors is None else cached_outputs(net, anchors, setup.device)
        keep = setup.experiment.engine.keep_features
        net, source = with_cached_features(net, federated.source, setup.device, keep=keep, progress=describing)
        federated = dataclasses.replace(federated, source=source)
        space = FlatSpace(net, space.names)
    return dataclasses.replace(setup, net=net, federated=federated, space=space, anchors=anchors)
