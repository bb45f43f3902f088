"""Sweeps: a grid of settings times seeds, resumable, summed up as mean and spread."""

from __future__ import annotations

import dataclasses
import itertools
import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sordino.core import SordinoError
from sordino.engine.record import RunRecord, read_summary
from sordino.engine.run import Moment, Watcher, run_experiment
from sordino.experiment import Experiment, Table, experiment, override
from sordino.files import to_json, write_whole
from sordino.privacy.streams import stream_id
from sordino.sentences import shown

Point = tuple[str, ...]
"""The `key=value` settings that tell one configuration from another."""


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """Every combination of the listed values, each with seeds `first_seed`, `first_seed` + 1, ..."""

    table: Table
    axes: Mapping[str, Sequence[str]]
    seeds: int

    def __post_init__(self) -> None:
        if self.seeds < 1:
            raise SordinoError(f"A sweep needs at least one seed, but got {self.seeds}; three show the spread.")

    def points(self) -> list[Point]:
        return list(itertools.product(*([f"{key}={value}" for value in values] for key, values in self.axes.items())))

    def experiments(self) -> Iterator[tuple[Point, int, Experiment]]:
        """All runs, seed by seed, so that an interrupted sweep has whole columns."""
        first = self.table.get("seed", 0)
        if not isinstance(first, int):
            raise SordinoError(f"At the top of the file, seed should be a valid integer, but got {shown(first)}.")
        for seed, point in itertools.product(range(first, first + self.seeds), self.points()):
            table = {**self.table, "seed": seed}
            for setting in point:
                override(table, setting)
            yield point, seed, experiment(table)


def read_axes(texts: Sequence[str]) -> dict[str, list[str]]:
    """From `key=v1,v2` to values by key; commas inside brackets, braces or quotes do not split."""
    axes = {}
    for text in texts:
        key, equals, values = text.partition("=")
        if not equals or not key or not values:
            raise SordinoError(
                f"--over takes key=v1,v2,..., but got {text!r}; write for instance --over privacy.epsilon=1,4."
            )
        axes[key] = _split(values)
    return axes


def _split(text: str) -> list[str]:
    parts, depth, quoted, current = [], 0, "", ""
    for character in text:
        if quoted:
            quoted = "" if character == quoted else quoted
        elif character in "'\"":
            quoted = character
        depth += (character in "[{") - (character in "]}")
        if character == "," and depth == 0 and not quoted:
            parts.append(current)
            current = ""
        else:
            current += character
    return [*parts, current]


def run_sweep(sweep: Sweep, out: Path, *, folder: Path, watch: Watcher) -> list[dict[str, Any]]:
    """Run what is not done yet, then write the table; returns one row per configuration."""
    runs = list(sweep.experiments())
    found: dict[Point, list[dict[str, Any]]] = {point: [] for point in sweep.points()}
    for number, (point, seed, one) in enumerate(runs, start=1):
        place = out / _folder_name(point) / f"seed-{seed}"
        if (place / "summary.json").exists():
            _refuse_other(place, one)
        else:
            run_experiment(one, place, resume=True, folder=folder, watch=_numbered(watch, number, len(runs)))
        found[point].append(read_summary(place))
    rows = [_row(point, summaries) for point, summaries in found.items()]
    configurations = len(sweep.points())
    content = {"configurations_that_touched_private_data": configurations, "seeds": sweep.seeds, "rows": rows}
    write_whole(out / "sweep.json", to_json(content, indent=2).encode())
    return rows


def _refuse_other(place: Path, wanted: Experiment) -> None:
    """A finished run counts only if it is the run that this sweep asks for."""
    if RunRecord(place).read_experiment()["fingerprint"] != wanted.fingerprint():
        raise SordinoError(
            f"{place} holds a finished run of another experiment; the file has changed since, so choose another --out folder."
        )


def _numbered(watch: Watcher, number: int, total: int) -> Callable[[Moment], None]:
    def told(moment: Moment) -> None:
        watch(dataclasses.replace(moment, stage=f"run {number}/{total}: {moment.stage}"))

    return told


def _folder_name(point: Point) -> str:
    """The settings as a folder's name; long ones are cut, and told apart by a digest of the whole."""
    plain = "__".join(point) or "all"
    safe = "".join(character if character.isalnum() or character in "._=-" else "-" for character in plain)[:120]
    return safe if safe == plain else f"{safe}-{stream_id(plain):x}"


def _row(point: Point, summaries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    accuracies = [math.nan if summary["accuracy"] is None else summary["accuracy"] for summary in summaries]
    epsilons = {
        view: max(float(summary["epsilon"][view]["epsilon"]) for summary in summaries)
        for view in ("public", "server", "client")
    }
    return {
        "settings": dict(setting.split("=", 1) for setting in point),
        "accuracy": statistics.mean(accuracies),
        "spread": statistics.stdev(accuracies) if len(accuracies) > 1 else math.nan,
        "accuracies": accuracies,
        "auroc": _mean(summaries, "auroc"),
        "accuracy_epsilon_area": _mean(summaries, "accuracy_epsilon_area"),
        "epsilon": epsilons,
        "seconds": statistics.mean(summary["seconds"] for summary in summaries),
        **_own_mix(summaries),
    }


def _own_mix(summaries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Over seeds, the mean over clients of accuracy in their own mix of labels, where runs have it: outside every ε."""
    found = [summary["non_private_diagnostics"].get("non_private_clients") for summary in summaries]
    if not all(found):
        return {}
    means = [clients["mean"] for clients in found]
    spread = statistics.stdev(means) if len(means) > 1 else math.nan
    return {"non_private_own_mix": {"mean": statistics.mean(means), "spread": spread, "means": means}}


def _mean(summaries: Sequence[Mapping[str, Any]], field: str) -> float | None:
    values = [summary[field] for summary in summaries if summary.get(field) is not None]
    return statistics.mean(values) if values else None
