"""The audit of an experiment: canaries in its own rounds, and the ε that they prove beside the ε that its ledger claims."""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sordino.audit.bounds import BoundName, Guessing, choose
from sordino.audit.checks import Check, batches_check, noise_checks, sampling_check
from sordino.audit.final_model import FinalVerdict, audit_final_model
from sordino.audit.planting.ground import Ground, make_ground
from sordino.audit.planting.known import Declared
from sordino.audit.planting.nodes import canary_nodes
from sordino.audit.planting.rounds import CanaryRun, canary_run, promised_views, worst_bill
from sordino.audit.replay import replay
from sordino.audit.trade_off import Claim
from sordino.core import VIEWS, View
from sordino.data.beside import relative_to
from sordino.engine.tariff import Multipliers
from sordino.experiment import Experiment
from sordino.outside import look_beside
from sordino.privacy.pricing import neighbours_in

CONFIDENCE = 0.95
"""That nothing in the whole audit alarms falsely."""
ENOUGH = 20_000
"""Canaries in one view after which more would tell little more."""
MOST_RUNS = 200
SCHEMA = 1

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What was claimed in one view, and what was proven."""

    view: View
    claimed: float
    delta: float
    because: str
    proven: float | None = None
    power: float | None = None
    guessing: Guessing | None = None
    canaries: int = 0
    correct: int | None = None
    confidence: float = 0.0
    also: dict[BoundName, tuple[float, float]] | None = None

    @property
    def holds(self) -> bool:
        return self.proven is None or self.proven <= self.claimed

    def to_json(self) -> dict[str, Any]:
        shared = {
            "claimed_epsilon": self.claimed,
            "delta": self.delta,
            "because": self.because,
            "holds": self.holds,
            "audited": self.proven is not None,
        }
        if self.guessing is None:
            return shared
        return {
            **shared,
            "proven_epsilon": self.proven,
            "power": self.power,
            "bound": self.guessing.bound,
            "canaries": self.canaries,
            "guesses": self.guessing.guesses or None,
            "correct": self.correct,
            "confidence": self.confidence,
            "also": [
                {"bound": name, "proven_epsilon": proven, "power": power}
                for name, (proven, power) in (self.also or {}).items()
            ],
        }


@dataclass(frozen=True, kw_only=True)
class AuditResult:
    """The verdicts over all views, and the tests beside them."""

    ground: Ground
    inner: str
    verdicts: list[Verdict]
    checks: list[Check]
    runs: int
    confidence: float
    seconds: float
    budget_seconds: float
    final_model: FinalVerdict | None = None

    @property
    def holds(self) -> bool:
        in_views = all(verdict.holds for verdict in self.verdicts)
        return (
            in_views and (self.final_model is None or self.final_model.holds) and all(one.holds for one in self.checks)
        )

    def to_json(self) -> dict[str, Any]:
        experiment, tariff = self.ground.experiment, self.ground.parts.tariff
        return {
            "schema": SCHEMA,
            "kind": "audit",
            "name": experiment.name,
            "method": self.inner,
            "mechanism": tariff.mechanism_name,
            "noise": tariff.noise_drawn,
            "engine": experiment.engine.name,
            "unit": self.ground.unit,
            "rounds": experiment.rounds,
            "clients": self.ground.clients,
            "runs": self.runs,
            "confidence": self.confidence,
            "seconds": self.seconds,
            "budget_seconds": self.budget_seconds,
            "holds": self.holds,
            "views": {verdict.view: verdict.to_json() for verdict in self.verdicts},
            "checks": [check.to_json() for check in self.checks],
            **({} if self.final_model is None else {"final_model": self.final_model.to_json()}),
        }


def audit_experiment(
    experiment: Experiment,
    *,
    views: tuple[View, ...] = VIEWS,
    budget_seconds: float = 60.0,
    folder: Path | None = None,
    settled: Multipliers | None = None,
    declared: Declared = (),
    runs: int | None = None,
    confidence: float = CONFIDENCE,
    final_model: bool = False,
    progress: Progress = lambda stage, done, total: None,
) -> AuditResult:
    """Run the experiment with canaries as often as the budget allows, at least once, and hold what they prove against the ledger.

    Relative paths begin in `folder`. A run that is audited afterwards has its noise `settled`, and its nodes have `declared` their
    rows. With `runs`, so many whatever the time; `confidence` is that of the whole audit. With `final_model`, as many runs more are
    looked at by somebody who sees the last model alone.
    """
    begin = time.perf_counter()
    begin_at = folder or Path.cwd()
    look_beside(begin_at)
    with relative_to(begin_at), tempfile.TemporaryDirectory(prefix="sordino-audit-") as scratch:
        ground = make_ground(experiment, scratch=Path(scratch), settled=settled, declared=declared)
        promised = [view for view in promised_views(ground) if view in views]
        last = final_model and "public" in promised_views(ground)
        mechanism = ground.parts.tariff.mechanism
        in_each = 3 + (mechanism.public_examples() is not None)
        level = (1 - confidence) / max(1, in_each * len(promised) + 2 + last + mechanism.moves_clip)
        made = _all_runs(ground, promised, Path(scratch), budget_seconds, runs, progress) if promised else []
        replayed = [replay(experiment, scratch=Path(scratch), declared=declared)] if promised else []
        at_the_end = (
            audit_final_model(ground, runs=max(1, len(made)), scratch=Path(scratch), level=level) if last else None
        )
    verdicts = [
        _verdict(ground, made, view, level) if view in promised else _unpromised(ground, view) for view in views
    ]
    checks = replayed + [check for view in promised for check in noise_checks(ground, made, view, level=level)]
    if made:
        checks += [*sampling_check(ground, made, level=level), *batches_check(ground, made, promised[0], level=level)]
    return AuditResult(
        ground=ground,
        inner=str(experiment.method["name"]),
        verdicts=verdicts,
        checks=checks,
        runs=len(made),
        confidence=confidence,
        seconds=time.perf_counter() - begin,
        budget_seconds=budget_seconds,
        final_model=at_the_end,
    )


def _all_runs(
    ground: Ground,
    views: list[View],
    scratch: Path,
    budget_seconds: float,
    fixed: int | None,
    progress: Progress,
) -> list[CanaryRun]:
    """One run, and then as many as fit: their number follows from the time that one takes and not from what it shows."""

    def play(repeat: int, count: int) -> CanaryRun:
        total = count * ground.experiment.rounds
        return canary_run(
            ground,
            repeat=repeat,
            views=views,
            scratch=scratch,
            nodes=nodes,
            progress=lambda done, rounds: progress("canaries", repeat * rounds + done, total),
        )

    with canary_nodes(ground, scratch) as nodes:
        begin = time.perf_counter()
        runs = [play(0, 1)]
        if nodes is not None:  # the first run also starts what nodes need for any run
            begin = time.perf_counter()
            runs.append(play(1, 2))
        seconds = time.perf_counter() - begin
        wanted = math.ceil(ENOUGH / max(1, ground.canaries))
        count = fixed or int(max(1, min(budget_seconds / max(seconds, 1e-3), wanted, MOST_RUNS)))
        runs += [play(repeat, count) for repeat in range(len(runs), count)]
    return runs


def _verdict(ground: Ground, runs: list[CanaryRun], view: View, level: float) -> Verdict:
    privacy, confidence = ground.experiment.privacy, 1 - level
    bills = [worst_bill(run, view) for run in runs]
    bill, claimed = max(bills, key=lambda entry: entry[1])
    claim = Claim(bill, neighbours_in(view, privacy.neighbours), privacy.delta)
    judged = [run.judged(view) for run in runs]
    scores = np.concatenate([run.sights[view].scores[who] for run, who in zip(runs, judged, strict=True)])
    coins = np.concatenate([run.coins[who] for run, who in zip(runs, judged, strict=True)])
    because = ground.parts.tariff.price(0, 0).in_view(view).because
    if min(coins.sum(), (~coins).sum()) < 2 or math.isinf(claimed):
        return Verdict(view=view, claimed=claimed, delta=privacy.delta, because=because)
    chosen, ways = choose(len(scores), claim, confidence=confidence)
    found = {
        bound: (
            way.proven(scores, coins, claim, confidence=confidence),
            way.power(len(scores), claim, confidence=confidence),
        )
        for bound, way in ways.items()
    }
    proven, power = found.pop(chosen.bound)
    return Verdict(
        view=view,
        claimed=claimed,
        delta=privacy.delta,
        because=because,
        proven=proven,
        power=power,
        guessing=chosen,
        canaries=len(scores),
        correct=chosen.correct(scores, coins),
        confidence=confidence,
        also=found,
    )


def _unpromised(ground: Ground, view: View) -> Verdict:
    charge = ground.parts.tariff.price(0, 0).in_view(view)
    return Verdict(view=view, claimed=math.inf, delta=ground.experiment.privacy.delta, because=charge.because)
