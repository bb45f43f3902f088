"""From an experiment to the parts of a run."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sordino.core import VIEWS, Private, SordinoError
from sordino.data.evaluation_rows import Charged
from sordino.data.examples import Examples
from sordino.data.holding_out import hold_out
from sordino.data.partition import PARTITIONERS, Partition
from sordino.data.public import digest, public_settings, public_source
from sordino.data.public_overlap import refuse_overlap, refuse_same_source
from sordino.data.raw import Array
from sordino.data.settings import SourceFacts
from sordino.data.source import Source, SourceSettings, describe, labels_and_columns, load, test_labels
from sordino.engine.choice import charges_before
from sordino.engine.client_test_rows import Matched, match_test_rows
from sordino.engine.evaluation_rows import refuse_silent_split, rows_of
from sordino.engine.features import cached_outputs, frozen_body, with_cached_features
from sordino.engine.tariff import Multipliers, Tariff, make_tariff
from sordino.experiment import Experiment
from sordino.methods import METHODS, Method
from sordino.methods.method import ModelAware, RoundsAware
from sordino.methods.personal import Personalised
from sordino.models import FlatSpace, Net, build, validate
from sordino.pretrain import STARTS, Start
from sordino.pretrain.provenance import PrivateData, Provenance
from sordino.pretrain.start import Progress, StartContext, StartFacts
from sordino.privacy.gep import Gep
from sordino.privacy.mechanisms import Mechanism
from sordino.privacy.streams import stream_id
from sordino.sentences import first_line, shown
from sordino.settings import member, validated
from sordino.tuning import TUNINGS, Bridge, Phase, Task, Tuning, bridge_of, phases_of

ANCHORS = "privacy.mechanism.public"


@dataclass(frozen=True, kw_only=True)
class Federated:
    """A data set and who holds which rows of it."""

    source: Source
    partition: Partition
    newcomers: Partition | None = None
    """Clients that join when training is over, numbered on from the others."""
    held_out: Partition | None = None
    """Rows that clients keep from training, where evaluation is charged."""

    @property
    def sizes(self) -> list[int]:
        return [int(size) for size in self.partition.sizes]

    def digest(self) -> str:
        """The same for the same rows dealt out in the same way, and for no others. It is as private as the rows are."""
        found = blake2b(digest_size=16)
        for part in (self.source.train, self.source.test):
            found.update(b"" if part is None else digest(part).encode())
        for dealt in (self.partition, self.newcomers, self.held_out):
            found.update(b"" if dealt is None else dealt.indices.tobytes() + dealt.sizes.tobytes())
        return found.hexdigest()

    def client(self, client: int) -> Private[Examples]:
        if self.newcomers is not None and client >= self.partition.clients:
            rows = self.newcomers.of(client - self.partition.clients)
        else:
            rows = self.partition.of(client)
        return Private(self.source.train.take(torch.from_numpy(rows)))

    def held_out_of(self, client: int) -> Private[Examples]:
        """The rows on which this client evaluates a model."""
        assert self.held_out is not None
        return Private(self.source.train.take(torch.from_numpy(self.held_out.of(client))))

    def match_test_rows(self, experiment: Experiment, method: Method) -> Matched | None:
        """Test rows for every client, where figures of single clients were asked for and test rows are public."""
        if self.source.test is None:
            return None
        return match_test_rows(
            experiment,
            method,
            self.partition,
            self.newcomers,
            train_labels=self.source.train.labels.numpy,
            test_labels=self.source.test.labels.numpy,
        )


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


@dataclass(frozen=True, kw_only=True)
class Choices:
    """The members that an experiment names, with their settings: what can be checked before any data are looked at."""

    device: torch.device
    method: Method
    start: Start
    tuning: Tuning


@dataclass(frozen=True, kw_only=True)
class Parts:
    """What a plan and a run have in common. Both build it by `make_parts`, so a plan refuses what a run would refuse."""

    model: Model
    phases: tuple[Phase, ...]
    spaces: tuple[FlatSpace, ...]
    """What is shared in each phase."""
    tariff: Tariff


def make_choices(experiment: Experiment) -> Choices:
    return Choices(
        device=make_device(experiment.engine.device),
        method=make_method(experiment),
        start=member(STARTS, experiment.start, where="start"),
        tuning=make_tuning(experiment),
    )


def make_parts(
    experiment: Experiment,
    choices: Choices,
    *,
    task: Task,
    vocabulary: int,
    sizes: Sequence[int],
    settled: Multipliers | None = None,
) -> Parts:
    """Build and check everything that no example's inputs are needed for; `sizes` are rows per client.

    A run that goes on has its noise `settled`.
    """
    method = choices.method
    method.plan_facts(experiment.rounds)
    before = charges_before(experiment, choices.tuning, method, sizes)
    tariff = make_tariff(experiment, method, clients=len(sizes), sizes=sizes, before=before, settled=settled)
    for view in VIEWS:
        tariff.worst_bills(view)
    check_public_sets(experiment, tariff.mechanism, task)
    model = make_model(experiment, task, vocabulary=vocabulary)
    phases = make_phases(experiment, model.net)
    spaces = tuple(shared_space(experiment, method, model.net, phase.trainable) for phase in phases)
    return Parts(model=model, phases=phases, spaces=spaces, tariff=tariff)


def source_settings(experiment: Experiment) -> SourceSettings:
    data = experiment.data
    for key in ("source", "visibility"):
        if key in data.options:
            raise SordinoError(f"In [data.options], {key} has no place, because [data] {key} says it; remove it.")
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


def load_source(experiment: Experiment) -> Source:
    """The experiment's data set, with the rows that it is tested on."""
    return load(source_settings(experiment), seed=experiment.seed, test=rows_of(experiment))


def federate(experiment: Experiment, method: Method) -> Federated:
    """Load the data and deal them out to clients, or leave them in one place."""
    source = load_source(experiment)
    partition, newcomers = _dealt_out(experiment, method, source.train.labels.numpy(), source.columns)
    partition, held_out = _held_out(experiment, partition)
    return Federated(source=source, partition=partition, newcomers=newcomers, held_out=held_out)


def client_sizes(experiment: Experiment, method: Method) -> list[int]:
    """How many rows each client would train on, learnt without reading an example's inputs; test rows are checked on the way."""
    settings, test = source_settings(experiment), rows_of(experiment)
    labels, columns = labels_and_columns(settings, seed=experiment.seed, test=test)
    partition, newcomers = _dealt_out(experiment, method, labels, columns)
    partition, _ = _held_out(experiment, partition)
    tested = test_labels(settings, seed=experiment.seed, test=test)
    if tested is not None:
        match_test_rows(
            experiment, method, partition, newcomers, train_labels=lambda: labels, test_labels=lambda: tested
        )
    return [int(size) for size in partition.sizes]


def _held_out(experiment: Experiment, partition: Partition) -> tuple[Partition, Partition | None]:
    """What clients train on, and what they hold out where evaluation is charged."""
    rows = rows_of(experiment)
    if not isinstance(rows, Charged):
        return partition, None
    return hold_out(partition, rows.fraction, np.random.default_rng([experiment.seed, 4]))


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
        raise SordinoError(f"[model] needs a name such as 'mlp', but got {shown(name)}.")
    taken = {"name", "shape", "classes", "vocabulary", "seed"} & set(settings)
    if taken:
        raise SordinoError(
            f"In [model], {min(taken)} has no place, because the data and the experiment say it; remove it."
        )
    drawn_from = experiment.seed if seed is None else seed
    with _memory_errors():
        return build(name, shape=shape, classes=classes, vocabulary=vocabulary, seed=drawn_from, **settings)


@contextmanager
def _memory_errors() -> Iterator[None]:
    """Turn a model that no memory can hold into a sentence."""
    try:
        yield
    except (RuntimeError, MemoryError, OverflowError) as error:
        if isinstance(error, RuntimeError) and not any(word in str(error) for word in ("allocate", "overflow")):
            raise
        raise SordinoError(
            "The model of [model] does not fit into this machine's memory; choose smaller sizes."
        ) from error


def make_device(name: str) -> torch.device:
    try:
        device = torch.device(name)
        torch.zeros(1, device=device).item()
    except (RuntimeError, AssertionError, ImportError) as error:
        raise SordinoError(
            f"The device {shown(name)} cannot be used here ({first_line(error)}); set [engine] device = 'cpu'."
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
    with _memory_errors():
        net = bridge.wrap(built, task, seed=experiment.seed)
    return Model(built=built, built_for=built_for, net=net, bridge=bridge)


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


def check_start(experiment: Experiment, start: Start, model: Model, *, folder: Path) -> list[str]:
    """Refuse a start that no run could make, without making it; returns what must be said of it."""
    facts = StartFacts(
        shape=model.built_for.shape,
        classes=model.built_for.classes,
        seed=experiment.seed,
        folder=folder,
        private=PrivateData(settings=source_settings(experiment)),
    )
    start.check(model.built, facts)
    return start.warnings(facts)


def check_public_sets(experiment: Experiment, mechanism: Mechanism, task: Task) -> None:
    """Refuse data sets that are to be free and cannot be, without reading an example of them."""
    if isinstance(table := experiment.start.get("data"), Mapping):
        _describe_public(experiment, public_settings(table, shape=(), where="start.data"))
    if not isinstance(mechanism, Gep):
        return
    settings = public_settings(mechanism.public, shape=task.shape, where=ANCHORS)
    facts = _describe_public(experiment, settings)
    if mechanism.anchors > facts.n_train:
        raise SordinoError(
            f"[privacy] mechanism asks for {mechanism.anchors} anchors, but the public set {settings.source!r} has "
            f"{facts.n_train} examples; lower anchors."
        )
    if facts.shape != task.shape:
        raise SordinoError(
            f"[{ANCHORS}] needs examples of shape {task.shape} like the private ones, but {settings.source!r} has {facts.shape}; "
            "choose another public set."
        )


def _describe_public(experiment: Experiment, settings: SourceSettings) -> SourceFacts:
    refuse_same_source(source_settings(experiment), settings)
    return describe(settings, seed=experiment.seed)


def public_anchors(mechanism: Mechanism, private: Source, *, seed: int) -> Examples | None:
    """Public examples for a mechanism that spans a subspace with them, with labels that the private model knows."""
    if not isinstance(mechanism, Gep):
        return None
    public = public_source(mechanism.public, shape=private.shape, seed=seed, where=ANCHORS)
    refuse_overlap(private, public)
    generator = torch.Generator().manual_seed(stream_id("anchors", seed))
    chosen = public.train.take(torch.randperm(len(public.train), generator=generator)[: mechanism.anchors])
    if public.classes == private.classes:
        return chosen
    labels = torch.randint(private.classes, (len(chosen),), generator=generator)
    return dataclasses.replace(chosen, labels=labels)


def shared_space(experiment: Experiment, method: Method, net: Net, names: Sequence[str]) -> FlatSpace:
    """What the federation trains together: all that is trained, less the head where it stays with its client."""
    home = isinstance(method, Personalised) and method.head_stays_home
    head = set(net.parts()["head"]) if home else set()
    space = FlatSpace(net, [name for name in names if name not in head])
    if isinstance(method, ModelAware):
        method.check(net, space)
    if not isinstance(method, Personalised):
        return space
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
    experiment: Experiment,
    *,
    folder: Path,
    progress: Progress,
    describing: Progress = lambda done, total: None,
    settled: Multipliers | None = None,
) -> Setup:
    """Build and check all parts, ready for the first phase. Nothing is written, and no private value leaves.

    `progress` follows the start, `describing` what a frozen body makes of the data. A run that goes on has its noise `settled`.
    """
    choices = make_choices(experiment)
    federated = federate(experiment, choices.method)
    source = federated.source
    refuse_silent_split(experiment, source)
    federated.match_test_rows(experiment, choices.method)
    task = Task(shape=source.shape, classes=source.classes)
    parts = make_parts(
        experiment, choices, task=task, vocabulary=source.vocabulary, sizes=federated.sizes, settled=settled
    )
    model, device = parts.model, choices.device
    context = start_context(experiment, source, model.built_for, device=device, folder=folder, progress=progress)
    start_warnings = choices.start.warnings(context)
    choices.start.prepare(model.built, context)
    model.net.to(device).train()
    ready = Setup(
        experiment=experiment,
        method=choices.method,
        phases=parts.phases,
        loaded=federated,
        federated=federated,
        whole=model.net,
        net=model.net,
        space=FlatSpace(model.net),
        tariff=parts.tariff,
        device=device,
        loaded_anchors=public_anchors(parts.tariff.mechanism, source, seed=experiment.seed),
        start_warnings=tuple(start_warnings),
        lineage=choices.start.lineage(folder),
    )
    return in_phase(ready, parts.phases[0], describing)


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
