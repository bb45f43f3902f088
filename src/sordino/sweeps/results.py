"""What a sweep has found: a row for each configuration, with mean and spread over seeds."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sordino.core import VIEWS
from sordino.engine.damaged import Needed, read_json_object
from sordino.engine.record import read_summary
from sordino.files import to_json, write_whole
from sordino.sweeps.checks import Problem
from sordino.sweeps.grid import Cell, Configuration

FILE = "sweep.json"
SCHEMA = 1
KEYS: Needed = {"rows": list, "problems": list, "configurations_that_touched_private_data": int}
NOT_COVERED = "The choice among them is not covered by any one run's ε."


@dataclass(frozen=True, kw_only=True)
class Results:
    """Rows by configuration, and what went wrong."""

    rows: Sequence[Mapping[str, Any]]
    problems: Sequence[Problem]
    choice: Mapping[str, Any] | None = None
    """What `--choose` chose, and at which ε; none where nobody asked for it."""

    def to_json(self) -> dict[str, Any]:
        return {
            "schema": SCHEMA,
            "configurations_that_touched_private_data": len({row["runs"][0] for row in self.rows if row["runs"]}),
            "choice": self.choice,
            "rows": list(self.rows),
            "problems": [
                {"settings": one.cell.configuration.settings, "seed": one.cell.seed, "sentence": one.sentence}
                for one in self.problems
            ],
        }

    def write(self, out: Path) -> None:
        if out.exists():
            write_whole(out / FILE, to_json(self.to_json(), indent=2).encode())


def read_results(out: Path) -> dict[str, Any]:
    """What `Results.write` wrote."""
    return read_json_object(out / FILE, KEYS, advice="run the same sweep again, which only sums up what is done")


def gather(cells: Sequence[tuple[Cell, Path]], problems: Sequence[Problem], out: Path) -> Results:
    """Sum up the finished runs of these cells, each with the folder of its run."""
    found: dict[Configuration, list[Path]] = {cell.configuration: [] for cell, _ in cells}
    for configuration, place in dict.fromkeys((cell.configuration, place) for cell, place in cells):
        if (place / "summary.json").exists():
            found[configuration].append(place)
    failed = [problem.cell.configuration for problem in problems]
    for configuration in failed:
        found.setdefault(configuration, [])
    rows = [_row(one, folders, out, failed=failed.count(one)) for one, folders in found.items()]
    return Results(rows=rows, problems=problems)


def _row(configuration: Configuration, folders: Sequence[Path], out: Path, *, failed: int) -> dict[str, Any]:
    summaries = [read_summary(folder) for folder in folders]
    accuracies = [math.nan if summary["accuracy"] is None else summary["accuracy"] for summary in summaries]
    about = {"settings": configuration.settings, "failed": failed, "accuracies": accuracies}
    if not summaries:
        return {**about, "runs": []}
    return {
        **about,
        "runs": [str(folder.relative_to(out)) for folder in folders],
        "accuracy": statistics.mean(accuracies),
        "spread": spread(accuracies),
        "auroc": _mean(summaries, "auroc"),
        "rmse": _mean(summaries, "rmse"),
        "mae": _mean(summaries, "mae"),
        "accuracy_epsilon_area": _mean(summaries, "accuracy_epsilon_area"),
        "epsilon": {view: max(float(one["epsilon"][view]["epsilon"]) for one in summaries) for view in VIEWS},
        "seconds": statistics.mean(summary["seconds"] for summary in summaries),
        **_own_mix(summaries),
    }


def spread(values: Sequence[float]) -> float:
    """The standard deviation over seeds; unknown with one."""
    return statistics.stdev(values) if len(values) > 1 else math.nan


def _own_mix(summaries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Over seeds, the mean over clients of accuracy in their own mix of labels, where runs have it: outside every ε."""
    found = [summary["non_private_diagnostics"].get("non_private_clients") for summary in summaries]
    if not all(found):
        return {}
    means = [clients["mean"] for clients in found]
    return {"non_private_own_mix": {"mean": statistics.mean(means), "spread": spread(means), "means": means}}


def _mean(summaries: Sequence[Mapping[str, Any]], field: str) -> float | None:
    values = [summary[field] for summary in summaries if summary.get(field) is not None]
    return statistics.mean(values) if values else None
