"""Every cell is planned before the first one runs, and cells that would give the same run share it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from sordino.core import SordinoError
from sordino.engine.moment import Watcher
from sordino.engine.plan import Plan, make_plan
from sordino.engine.record import RunRecord
from sordino.experiment import Experiment, experiment
from sordino.sweeps.grid import Cell, Configuration
from sordino.sweeps.pool import Hands

WITHOUT_NOISE = {"epsilon": None, "noise_multiplier": None, "client_epsilon": None, "clip_norm": 1.0}
"""Settings that change nothing where nothing is clipped or noised."""


@dataclass(frozen=True, kw_only=True)
class Ready:
    """A cell that can be run."""

    cell: Cell
    experiment: Experiment
    plan: Plan


@dataclass(frozen=True, kw_only=True)
class Problem:
    """A cell that cannot be run, or failed, and why."""

    cell: Cell
    sentence: str


Checked = list["Ready | Problem"]


@dataclass(frozen=True, kw_only=True)
class Planning:
    """Cells that differ in their seeds alone: what their noise costs is worked out once for all of them."""

    cells: tuple[Cell, ...]
    folder: Path

    def do(self, watch: Watcher, *, threads: int | None) -> Checked:
        return [self._planned(cell) for cell in self.cells]

    def died(self, sentence: str) -> Checked:
        return [Problem(cell=cell, sentence=sentence) for cell in self.cells]

    def _planned(self, cell: Cell) -> Ready | Problem:
        try:
            checked = experiment(cell.table)
            return Ready(cell=cell, experiment=checked, plan=make_plan(checked, folder=self.folder))
        except SordinoError as error:
            return Problem(cell=cell, sentence=str(error))


def check(cells: Iterable[Cell], *, folder: Path, by: Hands) -> tuple[list[Ready], list[Problem]]:
    """Plan every cell, in their order; where none can be run, the first one's sentence is raised."""
    alike: dict[Configuration, list[Cell]] = {}
    for cell in cells:
        alike.setdefault(cell.configuration, []).append(cell)
    tasks = [Planning(cells=tuple(some), folder=folder) for some in alike.values()]
    found: dict[int, Checked] = {}

    def told(number: int, checked: Checked) -> None:
        found[number] = checked

    by.do(tasks, told)
    every = [one for number in range(len(tasks)) for one in found[number]]
    ready = [one for one in every if isinstance(one, Ready)]
    problems = [one for one in every if isinstance(one, Problem)]
    if problems and not ready:
        raise SordinoError(problems[0].sentence)
    return ready, problems


def places(ready: Iterable[Ready], out: Path) -> list[Path]:
    """The folder of each cell's run: one for all cells whose runs are the same, and a finished one if there is any."""
    ready = list(ready)
    chosen: dict[str, Path] = {}
    for one in ready:
        here, key = out / one.cell.folder, identity(one)
        if key not in chosen or (_finished(here) and not _finished(chosen[key])):
            chosen[key] = here
    return [chosen[identity(one)] for one in ready]


def identity(one: Ready) -> str:
    """The same for cells that give the same run: where nothing is charged, no budget changes anything."""
    tariff, wanted = one.plan.tariff, one.experiment
    if tariff.protected or tariff.before or tariff.evaluation is not None:
        return wanted.fingerprint()
    return wanted.model_copy(update={"privacy": wanted.privacy.model_copy(update=WITHOUT_NOISE)}).fingerprint()


def refuse_others(ready: Iterable[Ready], out: Path) -> None:
    """A finished run counts only if it is the run that this sweep asks for."""
    for one in ready:
        here = out / one.cell.folder
        if _finished(here) and RunRecord(here).read_experiment()["fingerprint"] != one.experiment.fingerprint():
            raise SordinoError(
                f"{here} holds a finished run of another experiment; the file has changed since, so choose another --out folder."
            )


def _finished(folder: Path) -> bool:
    return (folder / "summary.json").exists()
