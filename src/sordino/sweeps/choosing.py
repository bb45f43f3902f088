"""Priced tuning: run a random number of random configurations, keep the best, and say what that costs.

Choosing the best of a sweep by its figures on private data leaks through the choice. Here the number of runs is drawn at
random and only the best is to be shown (Papernot and Steinke, arXiv:2110.03620); `choice_price.py` prices it.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sordino.core import VIEWS, SordinoError
from sordino.engine.record import RunRecord, read_summary
from sordino.engine.release import ROUND_LABELS
from sordino.privacy.ledger_file import read_book
from sordino.sweeps.checks import Ready, check, refuse_others
from sordino.sweeps.choice_price import price_choice
from sordino.sweeps.choice_release import publish
from sordino.sweeps.draws import Rule, settle_draws
from sordino.sweeps.grid import Sweep
from sordino.sweeps.pool import Hands, hands
from sordino.sweeps.progress import Onlooker
from sordino.sweeps.results import Results, gather
from sordino.sweeps.running import run_cells

SAME = ("delta", "neighbours", "noise_source")
"""Privacy settings that one price needs to be the same in all candidates."""


def run_choice(
    sweep: Sweep, rule: Rule, out: Path, *, folder: Path, jobs: int = 1, look: Onlooker = lambda progress: None
) -> Results:
    """Draw the runs, do them, and choose the one with the best accuracy; the results hold the choice and its ε in each view.

    All runs have the sweep's first seed, so that all are about the same clients. Accuracy is public or charged by each run.
    """
    with hands(jobs) as by:
        candidates = _checked_candidates(sweep, folder, by)
        drawn, where = _cells(candidates, settle_draws(candidates, rule, out), out)
        refuse_others(drawn, out)
        problems = run_cells(drawn, where, folder=folder, by=by, look=look)
    if problems:
        raise SordinoError(
            f"A choice needs all runs that were drawn, but {problems[0].cell.label} failed: {problems[0].sentence} "
            "Mend it and give the same command again."
        )
    choice = _choose(candidates, drawn, where, rule, out)
    results = gather([(one.cell, place) for one, place in zip(drawn, where, strict=True)], [], out)
    results = dataclasses.replace(results, choice=choice)
    results.write(out)
    return results


def _checked_candidates(sweep: Sweep, folder: Path, by: Hands) -> list[Ready]:
    cells = (sweep.cell(one, sweep.first_seed) for one in sweep.configurations())
    ready, problems = check(cells, folder=folder, by=by)
    if problems:
        raise SordinoError(f"{problems[0].cell.label} cannot be run, so it cannot be chosen: {problems[0].sentence}")
    for name in SAME:
        found = sorted({str(getattr(one.experiment.privacy, name)) for one in ready})
        if len(found) > 1:
            raise SordinoError(
                f"A choice has one price, so all need the same [privacy] {name}, but got {', '.join(found)}."
            )
    if len({one.plan.tariff.unit for one in ready}) > 1:
        raise SordinoError("A choice has one price, but these methods protect different units; choose among one kind.")
    return ready


def _cells(candidates: Sequence[Ready], draws: Sequence[int], out: Path) -> tuple[list[Ready], list[Path]]:
    """The drawn runs and their folders: a simulation that is drawn again is the same run, a secure one is another."""
    times: Counter[int] = Counter()
    drawn = []
    for number in draws:
        one = candidates[number]
        again = times[number] if one.experiment.privacy.noise_source == "secure" else 0
        drawn.append(dataclasses.replace(one, cell=dataclasses.replace(one.cell, again=again)))
        times[number] += 1
    return drawn, [out / one.cell.folder for one in drawn]


def _choose(
    candidates: Sequence[Ready], drawn: Sequence[Ready], where: Sequence[Path], rule: Rule, out: Path
) -> dict[str, Any]:
    repeated = any(_repeated_beyond_plan(one, place) for one, place in zip(drawn, where, strict=True))
    epsilon = price_choice(candidates, drawn, rule.stopping, repeated=repeated)
    about: dict[str, Any] = {
        "rule": rule.name,
        "expected_runs": rule.stopping.mean,
        "candidates": len(candidates),
        "epsilon": epsilon,
        "runs_kept_secret": len(drawn),
    }
    if not drawn:
        return {
            **about,
            "chosen": None,
            "sentence": "No run was drawn, so there is nothing to choose; that is part of the price.",
        }
    scores = [read_summary(place)["accuracy"] for place in where]
    best = max(range(len(drawn)), key=lambda number: -math.inf if scores[number] is None else scores[number])
    configuration = drawn[best].cell.configuration
    chosen = {
        "settings": configuration.settings,
        "accuracy": scores[best],
        "run": str(where[best].relative_to(out)),
        "epsilon_of_the_run_alone": {view: read_summary(where[best])["epsilon"][view]["epsilon"] for view in VIEWS},
    }
    choice = {**about, "chosen": chosen, "sentence": _sentence(configuration.label, about, chosen)}
    if drawn[best].experiment.privacy.noise_source == "secure":
        publish(choice, where[best], out)
    return choice


def _repeated_beyond_plan(one: Ready, place: Path) -> bool:
    """Whether crashes made a run charge again for more rounds than its plan had to spare, or for anything else."""
    charged = {(line.label, line.round, line.attempt) for line in read_book(RunRecord(place).ledger).lines}
    again = Counter(label for label, _, _ in charged)
    again.subtract(label for label, _ in {(label, number) for label, number, _ in charged})
    rounds = sum(again.pop(label, 0) for label in ROUND_LABELS)
    return rounds > one.plan.tariff.spare_rounds or any(again.values())


def _sentence(label: str, about: dict[str, Any], chosen: dict[str, Any]) -> str:
    public, alone = about["epsilon"]["public"], float(chosen["epsilon_of_the_run_alone"]["public"])
    return (
        f"Chosen: {label}, as the best of a random number of runs ({about['rule']}, {about['expected_runs']:g} expected). "
        f"ε = {public['epsilon']:.3f} at δ = {public['delta']:g} in the public view covers the choice too; the run alone has "
        f"{alone:.3f}. It holds while the other runs and their number stay secret."
    )
