"""Replay: the same releases with other rows behind them must give the same server state, bit for bit.

A method is played twice, on made-up rows that have nothing in common and with other cohorts. The second time its verbs do all their
work and hand out what they handed out the first time. Whatever a method takes from clients by another way then shows as a difference.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch

from sordino.audit.checks import Check
from sordino.audit.planting.known import Declared, Known
from sordino.core import Private
from sordino.data.examples import IDENTITY, Examples, Normalisation
from sordino.data.partition import Partition
from sordino.data.source import Source
from sordino.engine.dealing import Federated
from sordino.engine.engines import make_engine
from sordino.engine.federation import FederationServer
from sordino.engine.noise_sources import server_noise
from sordino.engine.resolved import resolve
from sordino.engine.setup import Setup, in_phase, make_parts
from sordino.experiment import Experiment
from sordino.methods.method import Federation, State
from sordino.models import FlatSpace
from sordino.privacy.door import Door
from sordino.privacy.ledger import Ledger
from sordino.privacy.streams import stream_id

ROUNDS, ROWS = 3, 8
"""Rounds that are played, and rows of a client whose rows are used as a whole."""
VERBS = ("collect_sum", "collect_each", "collect_models", "collect_on_support")


@dataclass(frozen=True, kw_only=True)
class _MadeUpRows(Federated):
    """Random rows of the right shape; nobody's."""

    seed: int
    whole: bool

    def client(self, client: int) -> Private[Examples]:
        size = int(self.partition.sizes[client]) if self.whole else ROWS
        seed = stream_id("made up", self.seed, client)
        source = self.source
        return Private(_made_up(source.kind, source.shape, source.classes, source.vocabulary, size=size, seed=seed))


def _made_up(kind: str, shape: tuple[int, ...], classes: int, vocabulary: int, *, size: int, seed: int) -> Examples:
    generator, normalisation = torch.Generator().manual_seed(seed), IDENTITY
    if kind == "text":
        inputs = torch.randint(max(1, vocabulary), (size, *shape), generator=generator)
    elif kind == "image":
        inputs = torch.randint(256, (size, *shape), generator=generator, dtype=torch.uint8)
        normalisation = Normalisation()
    else:
        inputs = torch.randn((size, *shape), generator=generator)
    number = torch.rand(size, generator=generator)
    labels = number if classes == 1 else torch.randint(classes, (size,), generator=generator)
    return Examples(inputs=inputs, labels=labels, normalisation=normalisation)


class _Heard:
    """A round whose verbs remember what they hand out, or hand out what was remembered."""

    def __init__(self, federation: Federation, memory: list[Any], *, again: bool) -> None:
        self._federation, self._memory, self._again = federation, memory, again

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._federation, name)
        return self._verb(found) if name in VERBS else found

    def _verb(self, verb: Callable[..., Any]) -> Callable[..., Any]:
        def heard(*given: Any) -> Any:
            handed_out = verb(*given)
            if self._again:
                return self._memory.pop(0)
            self._memory.append(handed_out)
            return handed_out

        return heard


def replay(experiment: Experiment, *, scratch: Path, declared: Declared = ()) -> Check:
    """Play an experiment's first rounds twice, on made-up rows, and compare what the server ends up with."""
    memory: list[Any] = []
    once = _states(_setup(experiment, 1, declared), memory, again=False, scratch=scratch / "replay-1")
    twice = _states(_setup(experiment, 2, declared), memory, again=True, scratch=scratch / "replay-2")
    differing = [
        f"{key!r} after round {number}"
        for number, (one, other) in enumerate(zip(once, twice, strict=True), 1)
        for key in sorted(set(one) | set(other))
        if not (key in one and key in other and _same(one[key], other[key]))
    ]
    return Check(
        name="state made of releases",
        view="public",
        holds=not differing,
        sentence=f"The same releases with other rows behind them gave the same state over {len(once)} rounds, bit for bit."
        if not differing
        else f"The same releases with other rows behind them gave another state: {', '.join(differing[:3])}.",
        figures={"rounds": float(len(once))},
    )


def _same(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.shape == other.shape and bool(((one == other) | (one.isnan() & other.isnan())).all())


def _states(setup: Setup, memory: list[Any], *, again: bool, scratch: Path) -> list[State]:
    privacy = setup.experiment.privacy
    ledger = Ledger(clients=len(setup.federated.sizes), delta=privacy.delta, neighbours=privacy.neighbours)
    state: State = {"model": setup.space.read(setup.net)}
    states = []
    engine = make_engine(setup, schedule="workers", folder=scratch, run=ledger.run)
    with closing(engine):
        server = FederationServer(
            roster=setup.federated.roster,
            space=setup.space,
            tariff=setup.tariff,
            door=Door(ledger, server_noise(setup.experiment)),
            transport=engine.transport,
            keeps_state=setup.method.keeps_state,
        )
        for number in range(_rounds(setup)):
            heard = _Heard(server.for_round(number), memory, again=again)
            state = setup.method.round(number, state, cast("Federation", heard))
            states.append({key: value.clone() for key, value in state.items()})
    return states


def _rounds(setup: Setup) -> int:
    """A few of the first phase."""
    later = [phase.first_round for phase in setup.phases[1:]]
    return min([ROUNDS, setup.experiment.rounds, *later])


def _setup(experiment: Experiment, seed: int, declared: Declared) -> Setup:
    """Everything as in a run, but rows of nobody, another seed for coins and noise, and clients in this process."""
    resolved = resolve(experiment)
    known = Known.of(resolved, declared)
    task, sizes = known.task, known.sizes
    parts = make_parts(resolved, task=task, vocabulary=known.vocabulary, sizes=sizes)
    own = experiment.model_copy(
        update={
            "seed": stream_id("replay", experiment.seed, seed) % 2**62,
            "engine": experiment.engine.model_copy(update={"name": "simulate", "keep_features": False}),
        }
    )
    resolved = dataclasses.replace(parts.resolved, experiment=own)
    needed = resolved.mechanism.public_examples()
    made = (known.kind, task.shape, task.classes, known.vocabulary)
    anchors = None if needed is None else _made_up(*made, size=needed.count, seed=seed)
    source = Source(
        name="made up",
        train=_made_up(*made, size=ROWS, seed=seed),
        test=None,
        classes=task.classes,
        shape=task.shape,
        kind=known.kind,
        visibility="public",
        class_names=tuple(map(str, range(task.classes))),
        vocabulary=known.vocabulary,
    )
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    data = _MadeUpRows(
        source=source,
        partition=Partition(np.arange(offsets[-1]), offsets),
        seed=seed,
        whole=resolved.method.unit == "example",
    )
    net = parts.model.net.to(resolved.device).train()
    ready = Setup(
        resolved=resolved,
        phases=parts.phases,
        loaded=data,
        federated=data,
        whole=net,
        net=net,
        space=FlatSpace(net, parts.spaces[0].names),
        tariff=parts.tariff,
        loaded_anchors=anchors,
        anchors=anchors,
    )
    return in_phase(ready, parts.phases[0])
