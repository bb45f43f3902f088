"""How the cohort's work is done: client by client on workers, or all small models stacked into one.

Workers give the same bits however many there are. Stacking adds floats in another order, so it agrees with workers to
float32 tolerance only; which of the two was used is part of the run record, and a resumed run uses it again.

Stacking replaces the clients' own code by one loop over all of them, so only jobs that say how they are stacked are, on
chains of plain dense layers. Any other job that a stacked run meets is done on workers.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Literal

import torch
from torch import Tensor

from sordino.core import Private, SordinoError
from sordino.data.examples import IDENTITY, Examples
from sordino.engine.simulate.stacked import dense_layers, run_stacked
from sordino.engine.simulate.workers import Place, Workers
from sordino.methods.context import ClientContext
from sordino.methods.jobs import PersonalJob
from sordino.methods.local_sgd import LocalSgd
from sordino.models import Net

ScheduleName = Literal["workers", "stacked"]

TRIALS, CLEAR = 4, 1.5
"""Times that each schedule is tried; the best counts, because a busy moment can only slow it down. After two, a clear lead is enough."""

STACK_LIMIT = 128
"""Models stacked at once: beyond this, more of them no longer saves time and only takes memory."""


def stacked_job(job: object) -> LocalSgd | None:
    """The plain SGD by which a job says that it may be stacked; None where it says nothing, or something else."""
    says = getattr(job, "stacked", None)
    if isinstance(job, PersonalJob) or not callable(says):
        return None
    plain = says()
    return plain if type(plain) is LocalSgd else None


def refuse_unstackable(net: Net, job: object) -> None:
    """Where stacking was asked for by name, say why it cannot be done."""
    if dense_layers(net) is None:
        raise SordinoError(
            "[engine] schedule = 'stacked' needs a model that is a plain chain of dense layers, but got another; "
            "set schedule = 'auto' or 'workers'."
        )
    if stacked_job(job) is None:
        raise SordinoError(
            f"[engine] schedule = 'stacked' needs client work that is plain SGD, but got that of {type(job).__name__}, which "
            "does not say how it is stacked; set schedule = 'auto' or 'workers'."
        )


def stacked_updates(
    workers: Workers,
    places: Sequence[Place],
    starts: Sequence[Tensor],
    rows: Sequence[Private[Examples]],
    job: LocalSgd,
) -> list[Private[Tensor]]:
    """Every client's update, still private, in the order of `places`."""

    def part(at: int) -> list[Private[Tensor]]:
        some = slice(at, at + STACK_LIMIT)
        return _one_stack(workers, places[some], starts[some], rows[some], job)

    return [update for at in range(0, len(places), STACK_LIMIT) for update in part(at)]


def _one_stack(
    workers: Workers,
    places: Sequence[Place],
    starts: Sequence[Tensor],
    rows: Sequence[Private[Examples]],
    job: LocalSgd,
) -> list[Private[Tensor]]:
    def together(own: list[Examples]) -> list[Tensor]:
        def work(_: int, context: ClientContext) -> list[Tensor]:
            contexts = [workers.context(context.net, place) for place in places]
            return run_stacked(job, starts, own, contexts)

        return workers.each(places[:1], work)[0]

    updates = Private.join(rows).map(together)
    return [updates.map(itemgetter(k)) for k in range(len(places))]


def choose(
    net: Net, workers: Workers, job: object, *, cohort: int, rows: int, shape: tuple[int, ...], start: Tensor
) -> tuple[ScheduleName, dict[str, float]]:
    """Time a few steps of each schedule on made-up data of the right shape, and take the faster."""
    plain = stacked_job(job)
    if plain is None or dense_layers(net) is None:
        return "workers", {}
    trial = dataclasses.replace(plain, epochs=1)
    count, size = min(max(cohort, 1), 32), min(max(rows, 1), 2 * plain.batch_size)
    public = Examples(
        inputs=torch.rand(size, math.prod(shape)), labels=torch.zeros(size, dtype=torch.int64), normalisation=IDENTITY
    )
    places = [Place(client=k, round=0, size=size) for k in range(count)]
    trials: dict[str, Callable[[], object]] = {
        "stacked": lambda: stacked_updates(workers, places, [start] * count, [Private(public)] * count, trial),
        "workers": lambda: workers.each(places, lambda _, context: trial.run(start, public, context)),
    }
    seconds: dict[str, float] = dict.fromkeys(trials, math.inf)
    for number in range(TRIALS):
        if number >= 2 and max(seconds.values()) > CLEAR * min(seconds.values()):
            break
        for name, work in trials.items():
            begin = time.perf_counter()
            work()
            seconds[name] = min(seconds[name], time.perf_counter() - begin)
    return ("stacked" if seconds["stacked"] <= seconds["workers"] else "workers"), seconds
