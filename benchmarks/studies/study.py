"""Named configurations times seeds: run what is missing, then mean and spread of each."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sordino.engine.record import read_summary
from sordino.engine.run import run_experiment
from sordino.experiment import experiment, override, read_table

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One configuration: an example file and what differs from it."""

    name: str
    file: str
    changes: tuple[str, ...] = ()

    def run(self, seed: int, out: Path) -> None:
        place = self.place(seed, out)
        if (place / "summary.json").exists():
            return
        table = read_table(EXAMPLES / self.file, self.changes)
        override(table, f"seed={seed}")
        run_experiment(experiment(table), place, resume=True, folder=(EXAMPLES / self.file).parent)

    def place(self, seed: int, out: Path) -> Path:
        return out / self.name / f"seed-{seed}"


@dataclass(frozen=True, kw_only=True)
class Result:
    """What the seeds of one cell gave."""

    accuracies: tuple[float, ...]
    epsilon: Mapping[str, float]
    seconds: float

    @property
    def mean(self) -> float:
        return statistics.mean(self.accuracies)

    @property
    def spread(self) -> float:
        return statistics.stdev(self.accuracies) if len(self.accuracies) > 1 else 0.0

    def __str__(self) -> str:
        return f"{100 * self.mean:.1f} ± {100 * self.spread:.1f}"


def run_all(cells: Sequence[Cell], seeds: Iterable[int], out: Path) -> None:
    """Seed by seed, so that an interrupted study has whole columns."""
    for seed in seeds:
        for number, cell in enumerate(cells, start=1):
            sys.stderr.write(f"seed {seed}, {number}/{len(cells)}: {cell.name}\n")
            cell.run(seed, out)


def results(cells: Sequence[Cell], seeds: Sequence[int], out: Path) -> dict[str, Result]:
    """Mean, spread and worst ε of every cell whose seeds are all there."""
    found = {}
    for cell in cells:
        places = [cell.place(seed, out) for seed in seeds]
        if all((place / "summary.json").exists() for place in places):
            found[cell.name] = _result([read_summary(place) for place in places])
    return found


def _result(summaries: Sequence[Mapping[str, Any]]) -> Result:
    return Result(
        accuracies=tuple(summary["accuracy"] for summary in summaries),
        epsilon={
            view: max(float(summary["epsilon"][view]["epsilon"]) for summary in summaries)
            for view in ("public", "server", "client")
        },
        seconds=statistics.mean(summary["seconds"] for summary in summaries),
    )


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
