"""From a resolved experiment to the parts of a run."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor

from sordino.core import VIEWS
from sordino.data.examples import Examples
from sordino.engine.bought_statistics import charges_for_statistics, refuse_cached_statistics
from sordino.engine.building import Model, make_model, make_phases, shared_space, start_context
from sordino.engine.dealing import Federated, federate
from sordino.engine.evaluate import fast_copy
from sordino.engine.evaluation_rows import refuse_silent_split
from sordino.engine.features import cached_outputs, frozen_body, with_cached_features
from sordino.engine.guessed_words import refuse_guessed_words
from sordino.engine.kernel_trial import left_to_torch_here
from sordino.engine.pricing import make_tariff
from sordino.engine.public_part import warnings_about_part
from sordino.engine.public_sets import check_public_sets, public_anchors
from sordino.engine.resolved import Resolved
from sordino.engine.run_facts import run_facts
from sordino.engine.simulate.dropping import check_dropping
from sordino.engine.simulate.workers import Workers
from sordino.engine.tariff import Multipliers, Tariff
from sordino.engine.worked_out import with_batches, with_steps
from sordino.experiment import Experiment
from sordino.kernels.choice import Left, leave_to_torch
from sordino.methods import Method
from sordino.models import FlatSpace, Net
from sordino.pretrain.provenance import Provenance
from sordino.pretrain.start import Progress
from sordino.threads import compute_threads, threads_of
from sordino.tuning import Phase, Task


@dataclass(frozen=True, kw_only=True)
class Setup:
    """Everything a run needs, built and checked before anything is written, as it stands in one phase of the run."""

    resolved: Resolved
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
    loaded_anchors: Examples | None = None
    anchors: Examples | None = None
    """Public examples, for mechanisms that need some: as they were loaded, and as the phase's model takes them."""
    start_warnings: tuple[str, ...] = ()
    lineage: tuple[Provenance, ...] = ()
    """What must be said of the start and of public rows beside the private ones, and all trainings that went into the start."""
    left_to_torch: Left = dataclasses.field(default_factory=dict)
    """What torch does faster than our kernels on the machine that the run was begun on; the layers know it."""

    @property
    def experiment(self) -> Experiment:
        return self.resolved.experiment

    @property
    def method(self) -> Method:
        return self.resolved.method

    @property
    def device(self) -> torch.device:
        return self.resolved.device

    def make_workers(self) -> Workers:
        """Threads for clients' work, each with a model of its own."""
        count = self.experiment.engine.workers
        return Workers(self.net, self.space, seed=self.experiment.seed, device=self.device, workers=count)

    def evaluated(self, model: Tensor) -> Net:
        """A model with these shared weights, to be evaluated: one fast copy, kept for all rounds of the phase."""
        self.space.write(self._fast_copy, model)
        return self._fast_copy

    @cached_property
    def _fast_copy(self) -> Net:
        return fast_copy(self.net)

    def phase(self, round_number: int) -> Phase:
        """The phase that a round belongs to."""
        return [phase for phase in self.phases if phase.first_round <= round_number][-1]


@dataclass(frozen=True, kw_only=True)
class Parts:
    """What a plan and a run have in common. Both build it by `make_parts`, so a plan refuses what a run would refuse."""

    model: Model
    phases: tuple[Phase, ...]
    spaces: tuple[FlatSpace, ...]
    """What is shared in each phase."""
    tariff: Tariff
    resolved: Resolved
    """With the settings that were left to the method, worked out."""


def make_parts(
    resolved: Resolved,
    *,
    task: Task,
    vocabulary: int,
    sizes: Sequence[int],
    settled: Multipliers | None = None,
) -> Parts:
    """Build and check everything that no example's inputs are needed for; `sizes` are rows per client.

    A run that goes on has its noise `settled`.
    """
    resolved = with_batches(resolved, sizes)
    resolved.method.plan_facts(resolved.experiment.rounds)
    before = Counter(resolved.tuning.charges_before(run_facts(resolved, sizes))) + Counter(
        charges_for_statistics(resolved)
    )
    tariff = make_tariff(resolved, clients=len(sizes), sizes=sizes, before=before, settled=settled)
    for view in VIEWS:
        tariff.worst_bills(view)
    check_public_sets(resolved, task)
    model = make_model(resolved, task, vocabulary=vocabulary)
    phases = make_phases(resolved, model.net)
    refuse_cached_statistics(resolved, model.net, phases)
    spaces = tuple(shared_space(resolved, model.net, phase.trainable) for phase in phases)
    resolved = with_steps(resolved, tariff, sizes, parameters=max(space.size for space in spaces))
    return Parts(model=model, phases=phases, spaces=spaces, tariff=tariff, resolved=resolved)


def prepare(
    resolved: Resolved,
    *,
    federated: Federated | None = None,
    folder: Path,
    progress: Progress,
    describing: Progress = lambda done, total: None,
    settled: Multipliers | None = None,
    left_to_torch: Left | None = None,
) -> Setup:
    """Build and check all parts, ready for the first phase. Nothing is written, and no private value leaves.

    `federated` is given where rows lie elsewhere. `progress` follows the start, `describing` what a frozen body makes of the data. A
    run that goes on has its noise `settled`, and what it has `left_to_torch`; any other tries that.
    """
    check_dropping(resolved.experiment)
    federated = federated or federate(resolved)
    source = federated.source
    refuse_silent_split(resolved, source)
    refuse_guessed_words(resolved, source)
    federated.match_test_rows(resolved)
    task = Task(shape=source.shape, classes=source.classes)
    parts = make_parts(resolved, task=task, vocabulary=source.vocabulary, sizes=federated.sizes, settled=settled)
    resolved, model, start = parts.resolved, parts.model, resolved.start
    context = start_context(resolved, source, model.built_for, folder=folder, progress=progress)
    start_warnings = (*start.warnings(context), *warnings_about_part(resolved, source, folder=folder))
    if left_to_torch is None:
        private_examples = resolved.method.unit == "example"
        left_to_torch = left_to_torch_here(
            model.net, source.shape, private_examples=private_examples, device=resolved.device
        )
    leave_to_torch(model.net, left_to_torch)
    with compute_threads(threads_of(resolved.experiment.engine.workers)):
        start.prepare(model.built, context)
    model.net.to(resolved.device).train()
    ready = Setup(
        resolved=resolved,
        phases=parts.phases,
        loaded=federated,
        federated=federated,
        whole=model.net,
        net=model.net,
        space=FlatSpace(model.net),
        tariff=parts.tariff,
        loaded_anchors=public_anchors(resolved, source),
        start_warnings=start_warnings,
        lineage=(*context.learnt, *start.lineage(folder)),
        left_to_torch=left_to_torch,
    )
    return in_phase(ready, parts.phases[0], describing)


def in_phase(setup: Setup, phase: Phase, describing: Progress = lambda done, total: None) -> Setup:
    """The same run with the model, coordinates and data of one phase, at the whole model's present weights."""
    net, federated, anchors = setup.whole, setup.loaded, setup.loaded_anchors
    space = shared_space(setup.resolved, net, phase.trainable)
    if frozen_body(net, phase.trainable):
        anchors = None if anchors is None else cached_outputs(net, anchors, setup.device)
        keep = setup.experiment.engine.keep_features
        net, source = with_cached_features(net, federated.source, setup.device, keep=keep, progress=describing)
        federated = dataclasses.replace(federated, source=source)
        space = FlatSpace(net, space.names)
    return dataclasses.replace(setup, net=net, federated=federated, space=space, anchors=anchors)
