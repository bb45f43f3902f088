"""The contract of a method, as checks that take an experiment's table."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from scipy.stats import binom
from torch import Tensor

from sordino.core import VIEWS, Released
from sordino.engine.resolved import resolve
from sordino.engine.run import run_experiment
from sordino.engine.simulate.schedule import stacked_job
from sordino.engine.state_check import next_state
from sordino.experiment import experiment
from sordino.methods.method import Federation, Upload
from sordino.privacy.ledger import read_lines
from sordino.testing.broken import Broken, demand
from sordino.testing.rounds import Play, Release, play
from sordino.testing.tables import Table

TINY_CHANCE = 1e-6


def check_the_run(table: Table) -> None:
    """A run ends, its ledger tells of its rounds in every view, and ε is finite in some view just if the method says so."""
    with TemporaryDirectory() as folder:
        summary = run_experiment(experiment(table), Path(folder) / "run")
        lines = read_lines(Path(folder) / "run" / "ledger.jsonl")
    rounds = range(int(table["rounds"]))
    demand({line.round for line in lines} <= set(rounds), f"The ledger tells of rounds outside {rounds}.")
    for line in lines:
        charged = {charge.view for charge in line.charges}
        demand(charged == set(VIEWS), f"Round {line.round} is charged in {sorted(charged)} alone.")
    claims = resolve(experiment(table)).method
    finite = any(math.isfinite(entry["epsilon"]) for entry in summary["epsilon"].values())
    promised = claims.protected and not claims.uncovered
    demand(finite == promised, f"The method claims protected = {claims.protected}, but ε is {summary['epsilon']}.")


def check_the_verb(table: Table) -> None:
    """What the method calls is what it declares."""
    found = play(table)
    method = found.setup.method
    allowed = {"collect_models" if method.unit == "example" else f"collect_{method.uses}"}
    if method.uncovered:
        allowed.add("collect_on_support")
    called = sorted(set(found.verbs))
    demand(set(called) <= allowed, f"The method declares {allowed} and calls {called}.")
    demand(bool(called), "The method asks its clients for nothing.")


def check_the_releases(table: Table) -> None:
    """A method gets released values, and nothing else."""
    for release in play(table).releases:
        values = (
            [upload.value for upload in release if isinstance(upload, Upload)]
            if isinstance(release, list)
            else [release]
        )
        whole = len(values) == len(release) if isinstance(release, list) else True
        demand(
            whole and all(isinstance(value, Released) for value in values),
            "The method got a value that is not released.",
        )


def check_own_rows(table: Table) -> None:
    """A client's bounded upload depends on its own rows and on what it was sent, and on nobody else's rows.

    The rows of the client that works first are changed. All others' uploads of the same rounds stay the same bit for bit,
    whichever end the work begins at, and none depends on who worked before.
    """
    last = table["data"]["clients"] - 1
    plain = play(table)
    for backwards, changed in ((False, 0), (True, last), (True, None)):
        other = play(table, changed=changed, backwards=backwards, script=plain.releases)
        _same_uploads(plain, other, but=changed)
    if stacked_job(plain.setup.method.job) is not None:
        stacked = play(table, schedule="stacked")
        _same_uploads(stacked, play(table, schedule="stacked", changed=0, script=stacked.releases), but=0)


def check_the_server(table: Table) -> None:
    """The server's state depends on what was released, and on nothing that clients did besides."""
    found = play(table)
    replay: Any = _Replaying(found.public, found.releases)
    state, untouched = dict(found.first), resolve(experiment(table)).method
    for number in range(int(table["rounds"])):
        state = next_state(untouched, number, state, replay)
    demand(
        state.keys() == found.state.keys(),
        f"From the same releases the server keeps {sorted(state)}, and not {sorted(found.state)}.",
    )
    for key, value in state.items():
        demand(torch.equal(value, found.state[key]), f"From the same releases the server comes to another {key}.")


def check_what_is_kept(table: Table) -> None:
    """Between rounds a method keeps its state and nothing else, because a run that is resumed begins with a new method."""
    longer = {**table, "rounds": 3}
    kept, fresh = play(longer).state, play(longer, fresh=True).state
    same = kept.keys() == fresh.keys() and all(torch.equal(value, fresh[key]) for key, value in kept.items())
    demand(
        same,
        "The method kept something outside its state between rounds; put it into the state that `round` returns.",
    )


def check_the_rate(table: Table) -> None:
    """Batches of noisy steps are as large as the rate that was charged says; does nothing for client-level methods."""
    found = play(table)
    if found.setup.tariff.steps is None:
        return
    for client, units in found.seen.units.items():
        rows = found.setup.federated.sizes[client]
        line = next(line for line in found.seen.ledger.lines if line.participants == (client,))
        rate = _charged_rate(line.charges[0].event)
        if not _drawn_as_charged(units, rows, rate):
            raise Broken(f"Client {client} was charged for batches at rate {rate:.3g} and drew {units} of {rows} rows.")


def check_the_schedule(table: Table) -> None:
    """Stacked clients upload what each computes by itself, to the tolerance of float32 sums in another order."""
    alone = play(table)
    together = play(table, schedule="stacked", script=alone.releases)
    for client, uploads in alone.seen.uploads.items():
        for mine, theirs in zip(uploads, together.seen.uploads[client], strict=True):
            demand(
                torch.allclose(mine.value, theirs.value, atol=2e-6, rtol=1e-4),
                f"The {mine.part} of client {client} in round {mine.round} is another where clients are stacked.",
            )


METHOD_CHECKS = (
    check_the_verb,
    check_the_releases,
    check_own_rows,
    check_the_server,
    check_what_is_kept,
    check_the_rate,
    check_the_schedule,
    check_the_run,
)


def _same_uploads(one: Play, other: Play, *, but: int | None) -> None:
    for client, uploads in one.seen.uploads.items():
        if client == but:
            continue
        for mine, theirs in zip(uploads, other.seen.uploads[client], strict=True):
            what = "who worked before it" if but is None else f"the rows of client {but}"
            same = torch.equal(mine.value, theirs.value)
            demand(same, f"The {mine.part} of client {client} in round {mine.round} depends on {what}.")
    if but is not None:
        pairs = [*zip(one.seen.uploads[but], other.seen.uploads[but], strict=True)]
        moved = any(not torch.equal(mine.value, theirs.value) for mine, theirs in pairs)
        shares_nothing = bool(pairs) and all(mine.value.numel() == 0 for mine, _ in pairs)
        demand(moved or shares_nothing, f"Client {but} got other rows and uploads the same, so nothing was checked.")


class _Replaying:
    """Hands out recorded releases again; there is no client behind it at all."""

    def __init__(self, federation: Federation, releases: Sequence[Release]) -> None:
        self.expected_cohort, self.sizes = federation.expected_cohort, list(federation.sizes)
        self.space, self.clip_norm = federation.space, federation.clip_norm
        self._releases = list(releases)

    def _next(self, *given: object) -> Release:
        return self._releases.pop(0)

    collect_sum = collect_each = collect_models = collect_on_support = _next

    def diagnose(self, round_number: int, tensors: Mapping[str, Tensor]) -> None:
        """Outside the server's state."""


def _drawn_as_charged(units: Sequence[int], rows: int, rate: float) -> bool:
    if rate == 1.0:
        return all(count == rows for count in units)
    drawn = binom(rows * len(units), rate)
    return bool(drawn.ppf(TINY_CHANCE) <= sum(units) <= drawn.ppf(1 - TINY_CHANCE))


def _charged_rate(event: Any) -> float:
    inner = getattr(event, "event", None)
    if hasattr(event, "sampling_probability"):
        return float(event.sampling_probability)
    return 1.0 if inner is None else _charged_rate(inner)
