"""A few real rounds of a method, and everything that a check may want to know of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from sordino.core import Released
from sordino.engine.resolved import resolve
from sordino.engine.setup import Setup, prepare
from sordino.engine.simulate.schedule import ScheduleName
from sordino.engine.state_check import next_state
from sordino.engine.worked_out import with_batches, with_steps
from sordino.experiment import experiment
from sordino.methods.method import Federation, Method, State, Upload
from sordino.testing.federation import Seen, seen_federation
from sordino.testing.tables import Table

VERBS = ("collect_sum", "collect_each", "collect_models", "collect_on_support")

Release = Released[Tensor] | list[Upload]


@dataclass
class Play:
    """What was called, what came out and what the server made of it; `public` is all that the method itself could see."""

    setup: Setup
    seen: Seen
    public: Federation
    first: State
    script: Sequence[Release] | None
    verbs: list[str] = field(default_factory=list)
    releases: list[Release] = field(default_factory=list)
    state: State = field(default_factory=dict)

    def collected(self, verb: str, release: Release) -> Release:
        self.verbs.append(verb)
        self.releases.append(release if self.script is None else self.script[len(self.releases)])
        return self.releases[-1]


def play(
    table: Table,
    *,
    changed: int | None = None,
    backwards: bool = False,
    script: Sequence[Release] | None = None,
    schedule: ScheduleName = "workers",
    fresh: bool = False,
) -> Play:
    """Real rounds of an experiment's method; only the noise is zero.

    Args:
        table: an experiment, such as `contract_table` makes.
        changed: a client with other rows than it has.
        backwards: whether clients work in the opposite order.
        script: releases that the server gets in place of those of the rounds, so that its state is the same again.
        fresh: whether every round gets a method of its own, made of the settings anew.
    """
    setup = prepare(resolve(experiment(table)), folder=Path.cwd(), progress=lambda done, total: None)
    with seen_federation(setup, schedule=schedule, changed=changed, backwards=backwards) as (federation, seen):
        first = {"model": setup.space.read(setup.net)}
        played = Play(setup=setup, seen=seen, public=federation.for_round(0), first=first, script=script, state=first)
        for number in range(setup.experiment.rounds):
            view: Any = _Recorded(federation.for_round(number), played)
            method = _made_anew(setup) if fresh else setup.method
            played.state = next_state(method, number, dict(played.state), view)
    return played


def _made_anew(setup: Setup) -> Method:
    """The method of this run, made of its settings once more."""
    sizes = setup.federated.sizes
    batched = with_batches(resolve(setup.experiment), sizes)
    return with_steps(batched, setup.tariff, sizes, parameters=setup.space.size).method


class _Recorded:
    """One round of a real federation, which tells what is called and what comes out."""

    def __init__(self, inner: Federation, played: Play) -> None:
        self._inner, self._played = inner, played

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        return found if name not in VERBS else lambda *given: self._played.collected(name, found(*given))
