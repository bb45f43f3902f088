"""Three steps on the stand-in: corners, what is around the best of them, and a trial with other seeds that nobody chose by.

All of it is public, so the choice costs no ε.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sordino.engine.pretraining import pretrain
from sordino.experiment import Table, experiment
from sordino.recommend.corners import AS_IT_STANDS, first_corners, second_corners
from sordino.recommend.stand_in import StandIn
from sordino.sweeps.cases import Case
from sordino.sweeps.grid import Sweep
from sordino.sweeps.progress import Onlooker
from sordino.sweeps.results import Results
from sordino.sweeps.running import run_sweep

PLACES = ("search", "trial", "start")
TRIAL_SEEDS = 3
OTHER_SEEDS = 1000
"""Added to the file's seed for the trial, so that it repeats none of the search."""


@dataclass(frozen=True, kw_only=True)
class Found:
    """What is recommended, what it was compared with, and where all runs are."""

    best: Case
    tried: Sequence[dict[str, Any]]
    """Accuracy by corner, from the best down, as the search saw it."""
    trial: Path
    """The folder of the trial: the file as it stands beside what is recommended."""
    rows: Sequence[Any]
    cut: int
    """Corners for which there was no time."""
    start_alone: float
    """The accuracy of the public start on the same test rows, before any client has trained it."""


def search(
    stand_in: StandIn,
    epsilon: float,
    out: Path,
    *,
    folder: Path,
    seconds: float,
    jobs: int,
    look: Onlooker = lambda _: None,
) -> Found:
    """Find good settings at a budget of ε within about so many seconds."""
    begin = time.perf_counter()
    for place in PLACES:
        shutil.rmtree(out / place, ignore_errors=True)
    table = _at(stand_in.table, epsilon)
    stands = Case(name=AS_IT_STANDS, settings={"start": stand_in.search_start} if _uses_public(stand_in.table) else {})

    def run(cases: Sequence[Case], place: str, *, seeds: int = 1, seed: int = 0) -> Results:
        sweep = Sweep(table={**table, "seed": int(table.get("seed", 0)) + seed}, axes={}, seeds=seeds, cases=cases)
        return run_sweep(sweep, out / place, folder=folder, jobs=jobs, look=look)

    cases, cut = _affordable([stands, *first_corners(stand_in.search_start)], run, begin, seconds / 2)
    around, cut_later = _affordable(second_corners(_best(cases), table), run, begin, seconds * 0.8)
    scores = {**cases, **around}
    best = _best(scores)
    both = [stands, best] if best.name != stands.name else [stands]
    rows = run(both, "trial", seeds=TRIAL_SEEDS, seed=OTHER_SEEDS).rows
    ranked = sorted(scores.values(), key=lambda pair: -pair[1])
    tried = [{"settings": case.name, "accuracy": accuracy} for case, accuracy in ranked]
    alone = _start_alone({**table, "start": stand_in.search_start}, out / "start", folder)
    return Found(best=best, tried=tried, trial=out / "trial", rows=rows, cut=cut + cut_later, start_alone=alone)


def _start_alone(table: Table, out: Path, folder: Path) -> float:
    record = pretrain(experiment(table), out, folder=folder, progress=lambda done, total: None)
    return float(record["public_test_accuracy"])


def _at(table: Table, epsilon: float) -> Table:
    privacy = {
        key: value
        for key, value in table.get("privacy", {}).items()
        if key not in ("noise_multiplier", "client_epsilon")
    }
    return {**table, "privacy": {**privacy, "epsilon": epsilon, "noise_source": "seeded"}}


def _uses_public(table: Table) -> bool:
    return isinstance(table.get("start"), dict) and "data" in table["start"]


Scores = dict[str, tuple[Case, float]]


def _affordable(cases: Sequence[Case], run: Any, begin: float, until: float) -> tuple[Scores, int]:
    """Run cases a few at a time while there is time; the first few always."""
    scores: Scores = {}
    for place in range(0, len(cases), 4):
        if place and time.perf_counter() - begin > until:
            return scores, len(cases) - place
        group = cases[place : place + 4]
        rows = run(group, "search").rows
        found = {row["settings"]["case"]: row["accuracy"] for row in rows if row["runs"]}
        scores |= {case.name: (case, found[case.name]) for case in group if case.name in found}
    return scores, 0


def _best(scores: Scores) -> Case:
    return max(scores.values(), key=lambda pair: pair[1])[0]
