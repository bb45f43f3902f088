"""Run a sweep: check everything, run what is not done yet, and sum up whatever ended well."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sordino.engine.moment import Moment
from sordino.sweeps.checks import Problem, Ready, check, places, refuse_others
from sordino.sweeps.grid import Sweep
from sordino.sweeps.pool import Ended, Hands, Job, hands
from sordino.sweeps.progress import Onlooker, Progress, Tracker
from sordino.sweeps.results import Results, gather


def run_sweep(
    sweep: Sweep, out: Path, *, folder: Path, jobs: int = 1, look: Onlooker = lambda progress: None
) -> Results:
    """Run what is not done yet in `out`, `jobs` runs at a time; relative paths of the experiment begin in `folder`.

    A cell that cannot be run, or fails, is told of in the results, and the others are run all the same. What a sweep has
    found is on disk even if it is interrupted.
    """
    with hands(jobs) as by:
        ready, problems = check(sweep.cells(), folder=folder, by=by)
        refuse_others(ready, out)
        if problems:
            look(_warning(problems, len(ready)))
        where = places(ready, out)
        try:
            problems += run_cells(ready, where, folder=folder, by=by, look=look)
        finally:
            results = gather([(one.cell, place) for one, place in zip(ready, where, strict=True)], problems, out)
            results.write(out)
    return results


def run_cells(
    ready: Sequence[Ready], where: Sequence[Path], *, folder: Path, by: Hands, look: Onlooker
) -> list[Problem]:
    """Run each place once that has no finished run; returns what failed."""
    first = {place: one for one, place in reversed(list(zip(ready, where, strict=True)))}
    todo = {place: first[place] for place in dict.fromkeys(where) if not (place / "summary.json").exists()}
    cells = list(todo.values())
    tracker = Tracker([one.cell.label for one in cells], [one.plan.work for one in cells], look)
    failed: dict[Path, str] = {}

    def told(number: int, news: Moment | Ended) -> None:
        if isinstance(news, Ended) and news.problem:
            failed[list(todo)[number]] = news.problem
        tracker(number, news)

    tasks = [
        Job(experiment=one.experiment, out=place, folder=folder, planned=one.plan.tariff.multipliers)
        for place, one in todo.items()
    ]
    by.do(tasks, told)
    return [
        Problem(cell=one.cell, sentence=failed[place])
        for one, place in zip(ready, where, strict=True)
        if place in failed
    ]


def _warning(problems: Sequence[Problem], others: int) -> Progress:
    """What is known to fail before anything has run."""
    first = problems[0]
    note = (
        f"{len(problems)} of {len(problems) + others} runs cannot be run, the others go on. "
        f"The first is {first.cell.label}: {first.sentence}"
    )
    return Progress(total=others, done=0, failed=0, running={}, seconds_left=None, note=note)
