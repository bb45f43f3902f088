"""A study whose grid is written down before anything runs: settings chosen on other rows than those it reports on, then seeds.

Every study is one command, `python -m benchmarks.studies.at_scale.NAME --out DIR`:
- `--jobs 2` runs so many cells side by side, one process for each core; cells that are done are not run again, and one that was cut
  goes on where it was;
- what every run gave is kept as a line of `benchmarks/results/studies/NAME.jsonl`, which is under git: at another sitting, on another
  machine, with an empty DIR, the study goes on from there;
- `--quick` chooses in one group and runs a few cells of all kinds, at toy size, into DIR/quick, to see that the study works; its
  figures mean nothing;
- `--report` prints what is there, and says how many of how many runs that is; `--rounds 100 200` adds the accuracy after so many rounds;
- `--large` is about other cells: those of the papers' own size, which take hours each and are told apart from the rest;
- `--figure FILE` draws the regime map from what is there: what the method gains where (gains.py);
- `--here` also runs what only other processors have given, and keeps it beside that, so that gains are taken between runs of one;
- of a run that several processors made, that of the processor with most runs of the study is told;
- `--again 2` runs two of the runs reported from this processor again, or from others where there are none, drawn by lot (the lot is the
  present commit's name, so that nobody can choose), and holds what they give now against what was kept. A run that another processor
  had made is kept beside it, so that the next lot finds it here.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks.history import RESULTS, commit
from benchmarks.studies.gains import Gain, Measured, draw
from benchmarks.studies.outcomes import Outcome, Outcomes, fingerprint
from benchmarks.studies.study import EXAMPLES, Cell, markdown
from sordino.core import SordinoError
from sordino.engine.record import RunRecord, read_summary
from sordino.experiment import experiment, override, read_table
from sordino.files import to_json, write_whole
from sordino.processor import processor
from sordino.sweeps.pool import Ended, Job, hands

Winners = Mapping[str, Cell]
"""The candidate that did best in each group, by the group's name."""
SCORE = "score"
"""The figure by which candidates are chosen."""
TOY_CELLS = 10
"""How many cells `--quick` runs, evenly taken from the grid."""
Figures = Callable[[Path], Mapping[str, float]]
"""Numbers of one finished run, by name; those of all seeds are averaged."""


def accuracy(run: Path) -> dict[str, float]:
    """On test rows, after the last round."""
    return {"accuracy": read_summary(run)["accuracy"]}


def own_accuracy(run: Path) -> dict[str, float]:
    """The mean over clients, each with its own model in its own mix of labels."""
    return {"own accuracy": read_summary(run)["non_private_diagnostics"]["non_private_clients"]["mean"]}


def validation(run: Path) -> float:
    """On rows that clients kept from training, and that are no test rows."""
    found: float = read_summary(run)["non_private_diagnostics"]["non_private_own_rows"]["validation"]["mean"]
    return found


def on_proxy(run: Path) -> float:
    """On the test rows of a public set that stands in for the private one."""
    return float(read_summary(run)["accuracy"])


@dataclass(frozen=True, kw_only=True)
class Study:
    """Groups of candidates, of which one each is chosen, and the cells that are reported."""

    name: str
    file: str
    """Under which its outcomes are kept, without an ending."""
    cells: Callable[[Winners], Sequence[Cell]]
    """What is reported, given the winners."""
    candidates: Mapping[str, Sequence[Cell]] = field(default_factory=dict)
    choose_by: Callable[[Path], float] = validation
    large: Sequence[Cell] = ()
    """Cells of the paper's own size, hours each, which are run and reported when asked for."""
    figures: Figures = accuracy
    seeds: Sequence[int] = (1, 2, 3)
    choosing_seeds: Sequence[int] = (101,)
    quick: Callable[[Cell], Sequence[str]] = lambda cell: ()
    """Changes that make a cell a toy."""
    gains: Callable[[Winners], Sequence[Gain]] = lambda winners: ()
    """The regimes of the map that `--figure` draws."""

    def main(self) -> None:
        parser = argparse.ArgumentParser(description=self.name)
        parser.add_argument("--out", type=Path, required=True)
        parser.add_argument("--jobs", type=int, default=1, help="runs side by side, one for each core")
        parser.add_argument(
            "--seeds", type=int, nargs="+", default=None, help=f"of the cells that are reported; {list(self.seeds)}"
        )
        parser.add_argument("--quick", action="store_true", help="a few cells of all kinds as toys, with one seed")
        parser.add_argument("--report", action="store_true", help="run nothing, and print what is there")
        parser.add_argument(
            "--rounds", type=int, nargs="+", default=(), help="report the accuracy after so many rounds, too"
        )
        parser.add_argument(
            "--large", action="store_true", help="the cells of the paper's own size instead, hours each"
        )
        parser.add_argument(
            "--only",
            default="",
            help="only the cell of this name, or all whose names contain it, and the choices they need",
        )
        parser.add_argument(
            "--figure", type=Path, help="run nothing, and draw the regime map of what is there into this file"
        )
        parser.add_argument(
            "--here", action="store_true", help="run what only other processors have given on this one too"
        )
        parser.add_argument("--again", type=int, default=0, metavar="N", help="run N reported runs again, drawn by lot")
        given = parser.parse_args()
        out = given.out / "quick" if given.quick else given.out
        seeds = given.seeds or (self.seeds[:1] if given.quick else self.seeds)
        kept = None if given.quick else RESULTS / "studies" / f"{self.file}.jsonl"
        study = self.at_large() if given.large else self
        plan = Plan(study=study, out=out, seeds=seeds, toy=given.quick, only=given.only, kept=kept, here=given.here)
        try:
            if given.again:
                sys.stdout.write(plan.again(given.again, given.jobs) + "\n")
                return
            if given.figure:
                draw(plan.gains(), given.figure)
                return
            if not given.report:
                plan.run(given.jobs)
            sys.stdout.write(plan.report(given.rounds) + "\n")
        except SordinoError as error:
            raise SystemExit(str(error)) from error

    def at_large(self) -> Study:
        """The cells of the paper's own size as a study of their own, in which nothing is chosen."""
        return replace(self, name=f"{self.name}, large", cells=lambda winners: self.large, candidates={})


@dataclass(frozen=True, kw_only=True)
class Plan:
    """One study in one folder."""

    study: Study
    out: Path
    seeds: Sequence[int]
    toy: bool = False
    only: str = ""
    kept: Path | None = None
    """The file of outcomes; one in `out`, where nothing is said."""
    here: bool = False
    """Whether a reported run that another processor made counts as missing."""
    outcomes: Outcomes = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "outcomes", Outcomes(self.kept or self.out / "outcomes.jsonl"))

    def run(self, jobs: int) -> None:
        """Write the grid down, choose, and run what is missing."""
        self._write_down()
        tried = [(cell, seed) for group in self._groups.values() for cell in group for seed in self._choosing]
        self._do(tried, jobs, self._scored)
        cells = self._reported(self.winners())
        self._do([(cell, seed) for seed in self.seeds for cell in cells], jobs, self.study.figures, here=self.here)

    def again(self, count: int, jobs: int) -> str:
        """Run some of the reported runs a second time, drawn by the commit's name, and tell what they gave then and now."""
        cells = self._reported(self.winners())
        told = [(cell, seed) for cell in cells for seed in self.seeds if self._outcome(cell, seed)]
        here = [one for one in told if self._made_here(*one)]
        where = "of this processor" if here else "of other processors, which add up in another order"
        made = here or told
        drawn = random.Random(commit()).sample(made, min(count, len(made)))
        second = replace(self, out=self.out / "again" / commit(), kept=None)
        second._do(drawn, jobs, self.study.figures)
        rows = []
        for cell, seed in drawn:
            then, now = self._made_here(cell, seed) or self._outcome(cell, seed), second._outcome(cell, seed)
            assert then is not None
            if now is not None and not here:
                self.outcomes.keep(now)
            again = ["nothing", "no"] if now is None else [_told(now), "yes" if now.figures == then.figures else "no"]
            rows.append([cell.name, str(seed), _told(then), f"{then.commit}, {then.processor}", *again])
        table = markdown(["cell", "seed", "then", "at", f"now, at {commit()}", "the same"], rows)
        return f"{self.study.name}: {len(drawn)} of {len(made)} runs {where}, drawn by lot\n\n{table}"

    def _made_here(self, cell: Cell, seed: int) -> Outcome | None:
        """What such a processor gave, if it did: another one adds up in another order, and private training makes points of that."""
        return self.outcomes.made_on(processor(), fingerprint(self._table(cell, seed)))

    def gains(self) -> list[Measured]:
        """What there is of the regime map: regimes of which at least one seed was run with both."""
        found = []
        for gain in self.study.gains(self.winners()):
            pairs = [self._beside(gain.method, gain.control, seed) for seed in self.seeds]
            both = [(one.figures[gain.figure], other.figures[gain.figure]) for one, other in pairs if one and other]
            if both:
                found.append(Measured(gain=gain, points=[100 * (one - other) for one, other in both]))
        return found

    def _beside(self, one: Cell, other: Cell, seed: int) -> tuple[Outcome | None, Outcome | None]:
        """Two runs to hold against each other, by the same processor if one made both, since processors differ by tenths of points."""
        settings = [fingerprint(self._table(cell, seed)) for cell in (one, other)]
        return self.outcomes.pair(*settings) or (self.outcomes.get(settings[0]), self.outcomes.get(settings[1]))

    def winners(self) -> dict[str, Cell]:
        """The best candidate of each group by its mean score; a tie goes to the one that was written down first."""
        found = self._first
        for name, group in self._groups.items():
            scores = [self._score(cell) for cell in group]
            missing = [cell.name for cell, score in zip(group, scores, strict=True) if score is None]
            if missing:
                raise SordinoError(
                    f"The study {self.study.name!r} chooses in the group {name!r} when all have run, but {missing[0]!r} is missing in "
                    f"{self.out}; run it without --report."
                )
            found[name] = max(zip(group, scores, strict=True), key=lambda one: one[1] or 0.0)[0]
        return found

    def report(self, rounds: Sequence[int] = ()) -> str:
        """A line for each cell with all that is there of it, after some of its rounds if wanted, and what was chosen by what."""
        winners, rows = self.winners(), []
        cells = self._reported(winners)
        made = {cell.name: runs for cell in cells if (runs := self.of(cell))}
        names = list(dict.fromkeys(name for runs in made.values() for name in runs[0].figures))
        for cell, runs in made.items():
            views = [f"{max(run.epsilon[view] for run in runs):.3g}" for view in ("public", "server")]
            spreads = (_spread([run.figures[name] for run in runs if name in run.figures]) for name in names)
            after = (_spread([run.curve[str(one)] for run in runs if str(one) in run.curve]) for one in rounds)
            rows.append([cell, *spreads, *after, *views, str(len(runs))])
        done = sum(len(runs) for runs in made.values())
        tried = sum(len(group) for group in self._groups.values())
        chosen = "".join(f"\nchosen in {name}: {winners[name].name}" for name in self._groups)
        table = markdown(["cell", *names, *(f"round {one}" for one in rounds), "ε public", "ε server", "seeds"], rows)
        return (
            f"{self.study.name}: {done} of {len(cells) * len(self.seeds)} runs; {tried} candidates tried with seeds "
            f"{list(self._choosing)}, none on the rows reported{chosen}\n\n{table}"
        )

    def of(self, cell: Cell) -> list[Outcome]:
        """What there is of a cell, seed by seed."""
        return [found for seed in self.seeds if (found := self._outcome(cell, seed))]

    @property
    def _groups(self) -> dict[str, Sequence[Cell]]:
        """The groups in which candidates are really tried."""
        groups = {name: group for name, group in self.study.candidates.items() if self._needed(name)}
        return {name: groups[name][:2] for name in list(groups)[:1]} if self.toy else groups

    @property
    def _first(self) -> dict[str, Cell]:
        return {name: group[0] for name, group in self.study.candidates.items()}

    def _needed(self, name: str) -> bool:
        """Whether the choice in this group changes any cell that is asked for."""
        if not self.only:
            return True
        last = {**self._first, name: self.study.candidates[name][-1]}
        pairs = zip(self.study.cells(self._first), self.study.cells(last), strict=True)
        return any(one != other for one, other in pairs if one in self._asked(self.study.cells(self._first)))

    def _asked(self, cells: Sequence[Cell]) -> list[Cell]:
        """The one whose name was given whole, or all that have the given words in their names."""
        return [cell for cell in cells if cell.name == self.only] or [cell for cell in cells if self.only in cell.name]

    def _reported(self, winners: Winners) -> list[Cell]:
        cells = self._asked(self.study.cells(winners))
        if not self.toy or len(cells) <= TOY_CELLS:
            return cells
        step = len(cells) // TOY_CELLS
        return [cells[place * step + place % step] for place in range(TOY_CELLS)]

    def _changes(self, cell: Cell) -> tuple[str, ...]:
        return (*cell.changes, *(self.study.quick(cell) if self.toy else ()))

    @property
    def _choosing(self) -> Sequence[int]:
        return self.study.choosing_seeds[:1] if self.toy else self.study.choosing_seeds

    def _score(self, cell: Cell) -> float | None:
        found = [self._outcome(cell, seed) for seed in self._choosing]
        if not all(found):
            return None
        return statistics.mean(one.figures[SCORE] for one in found if one)

    def _scored(self, run: Path) -> dict[str, float]:
        return {SCORE: self.study.choose_by(run)}

    def _outcome(self, cell: Cell, seed: int) -> Outcome | None:
        return self.outcomes.get(fingerprint(self._table(cell, seed)))

    def _write_down(self) -> None:
        """The grid goes to disk first; a folder that has another one is refused."""
        grid = json.loads(to_json(self._grid()))
        path = self.out / "grid.json"
        if path.exists() and json.loads(path.read_text()) != grid:
            raise SordinoError(
                f"{path} has another grid than {self.study.name!r} now, and one that changes after a look at results is no grid; use "
                "another --out."
            )
        self.out.mkdir(parents=True, exist_ok=True)
        write_whole(path, to_json(grid).encode())

    def _grid(self) -> dict[str, Any]:
        """All candidates, and the cells as they are with the first candidate of each group."""

        def told(cells: Sequence[Cell]) -> dict[str, Any]:
            return {cell.name: {"file": cell.file, "changes": list(self._changes(cell))} for cell in cells}

        return {
            "study": self.study.name,
            "candidates": {name: told(group) for name, group in self.study.candidates.items()},
            "choosing_seeds": list(self._choosing),
            "cells": told(self.study.cells(self._first)),
        }

    def _do(self, wanted: Sequence[tuple[Cell, int]], jobs: int, figures: Figures, *, here: bool = False) -> None:
        known = self._made_here if here else self._outcome
        todo = [(cell, seed) for cell, seed in wanted if not known(cell, seed)]

        def told(number: int, what: object) -> None:
            if isinstance(what, Ended):
                cell, seed = todo[number]
                sys.stderr.write(f"{cell.name}, seed {seed}: {what.problem or 'done'}\n")
                if not what.problem:
                    self._keep(cell, seed, figures)

        with hands(jobs) as workers:
            workers.do([self._job(cell, seed) for cell, seed in todo], told)

    def _keep(self, cell: Cell, seed: int, figures: Figures) -> None:
        run, settings = cell.place(seed, self.out), fingerprint(self._table(cell, seed))
        self.outcomes.keep(
            Outcome.read(run, cell=cell.name, seed=seed, settings=settings, figures=figures(run)),
        )

    def _job(self, cell: Cell, seed: int) -> Job:
        place = cell.place(seed, self.out)
        place.parent.mkdir(parents=True, exist_ok=True)
        return Job(experiment=experiment(self._table(cell, seed)), out=place, folder=(EXAMPLES / cell.file).parent)

    def _table(self, cell: Cell, seed: int) -> dict[str, Any]:
        table = read_table(EXAMPLES / cell.file, self._changes(cell))
        override(table, f"seed={seed}")
        return table


def rounds_of(run: Path) -> list[dict[str, Any]]:
    """The evaluations of a run, in their order."""
    return RunRecord(run).read_metrics()


def _spread(values: Sequence[float]) -> str:
    """One value has no spread."""
    if not values:
        return "–"
    spread = f" ± {100 * statistics.stdev(values):.1f}" if len(values) > 1 else ""
    return f"{100 * statistics.mean(values):.1f}{spread}"


def _told(outcome: Outcome) -> str:
    return ", ".join(f"{name} {100 * value:.2f}" for name, value in outcome.figures.items())
