"""The model of a run: built for its task, started, wrapped by the tuning, and what of it is shared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from sordino.core import SordinoError
from sordino.data.public import digest
from sordino.data.public_overlap import refuse_overlap
from sordino.data.row_fingerprints import fingerprints_of_all
from sordino.data.source import Source
from sordino.engine.resolved import Resolved
from sordino.experiment import Experiment
from sordino.models import FlatSpace, Net, build, validate
from sordino.pretrain.provenance import PrivateData, Provenance, public_training
from sordino.pretrain.start import Progress, StartContext, StartFacts
from sordino.sentences import shown
from sordino.tuning import Phase, Task


@dataclass(frozen=True, kw_only=True)
class Model:
    """A model as it is built and started, and as it is trained: the same, or what the tuning puts around it."""

    built: Net
    built_for: Task
    net: Net


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


def make_model(resolved: Resolved, task: Task, *, vocabulary: int) -> Model:
    """The model for a private task, with random weights, if the experiment's start goes with its tuning."""
    experiment, tuning = resolved.experiment, resolved.tuning
    tuning.check_start(str(experiment.start.get("name")))
    built_for = tuning.source_task(task)
    built = make_net(experiment, shape=built_for.shape, classes=built_for.classes, vocabulary=vocabulary)
    with _memory_errors():
        net = tuning.wrap(built, task, seed=experiment.seed)
    return Model(built=built, built_for=built_for, net=net)


def make_phases(resolved: Resolved, net: Net) -> tuple[Phase, ...]:
    phases = resolved.tuning.phases(net, resolved.experiment.rounds)
    for phase in phases:
        validate(net, list(phase.trainable))
    return phases


def shared_space(resolved: Resolved, net: Net, names: Sequence[str]) -> FlatSpace:
    """What the federation trains together: all that is trained, less the head where it stays with its client."""
    method, privacy = resolved.method, resolved.privacy
    head = set(net.parts()["head"]) if method.head_stays_home else set()
    space = FlatSpace(net, [name for name in names if name not in head])
    method.check(net, space)
    if method.keeps_state and method.unit == "client" and privacy.sampler == "fixed-size":
        raise SordinoError(
            "What clients keep makes a round depend on who was drawn before, and fixed-size draws are not proven private "
            "then; set [privacy] sampler = 'poisson' or 'everyone'."
        )
    if method.uncovered and method.protected and privacy.noise == "central":
        raise SordinoError(
            "Noise on each client's own support is drawn by the client; set [privacy] noise = 'distributed' or 'local'."
        )
    return space


def start_context(resolved: Resolved, source: Source, task: Task, *, folder: Path, progress: Progress) -> StartContext:
    """What a start may know of an experiment on this data set whose model is built for this task."""
    experiment = resolved.experiment

    def build_as_ours(classes: int, seed: int) -> Net:
        return make_net(experiment, shape=task.shape, classes=classes, vocabulary=source.vocabulary, seed=seed)

    learnt: list[Provenance] = []

    def refuse(public: Source) -> None:
        refuse_overlap(source, public)
        learnt.append(public_training(public))

    return StartContext(
        shape=task.shape,
        classes=task.classes,
        seed=experiment.seed,
        device=resolved.device,
        folder=folder,
        progress=progress,
        model=experiment.model,
        build=build_as_ours,
        refuse_overlap=refuse,
        learnt=learnt,
        private=private_data(resolved, source),
    )


def private_data(resolved: Resolved, source: Source) -> PrivateData:
    """What a start may know of the private set once it has been loaded."""
    return PrivateData(
        settings=resolved.source,
        digest=cache(lambda: digest(source.train)),
        fingerprints=cache(lambda: fingerprints_of_all(source)),
    )


def start_facts(resolved: Resolved, model: Model, *, folder: Path) -> StartFacts:
    """What a start may know of an experiment whose data have not been loaded."""
    return StartFacts(
        shape=model.built_for.shape,
        classes=model.built_for.classes,
        seed=resolved.experiment.seed,
        folder=folder,
        private=PrivateData(settings=resolved.source),
    )


def check_start(resolved: Resolved, model: Model, facts: StartFacts) -> list[str]:
    """Refuse a start that no run could make, without making it; returns what must be said of it."""
    resolved.start.check(model.built, facts)
    return resolved.start.warnings(facts)
