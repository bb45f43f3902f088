"""What a page is told: runs with their summaries and metrics, grouped into configurations that have one name everywhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from sordino.core import VIEWS, View
from sordino.engine.record import RunRecord, read_summary
from sordino.engine.record_keys import read_metrics_file, read_published_file
from sordino.report.comparison.comparing import Contest, compare
from sordino.report.comparison.entries import Entry
from sordino.report.comparison.runs import Run
from sordino.report.drawing.frame import Series
from sordino.report.terminal import epsilon_text
from sordino.sweeps.results import FILE as SWEEP
from sordino.sweeps.results import read_results


@dataclass(frozen=True, kw_only=True)
class Told:
    """A run with what may be shown of it: of a secure one, its `release/` alone."""

    run: Run
    summary: Mapping[str, Any]
    metrics: Sequence[Mapping[str, Any]]

    @property
    def record(self) -> RunRecord:
        return RunRecord(self.run.folder)

    @property
    def own_clients(self) -> Mapping[str, Any] | None:
        """Figures of clients in their own mix of labels, outside every ε."""
        found: Mapping[str, Any] | None = self.summary.get("non_private_diagnostics", {}).get("non_private_clients")
        return found


def read_told(run: Run) -> Told:
    record = RunRecord(run.folder)
    if run.simulated:
        return Told(run=run, summary=read_summary(run.folder), metrics=record.read_metrics())
    published = read_published_file(record.release / "summary.json")
    return Told(run=run, summary=published, metrics=read_metrics_file(record.release / "metrics.jsonl"))


@dataclass(frozen=True, kw_only=True)
class Configuration:
    """Runs that differ in nothing but the seed, under a name that no other configuration of the page has."""

    name: str
    series: Series
    dash: int
    runs: Sequence[Told]

    @property
    def first(self) -> Told:
        return self.runs[0]


@dataclass(frozen=True, kw_only=True)
class Story:
    """Everything that a page shows."""

    title: str
    by: str | None
    epsilon: float | None
    runs: Sequence[Told]
    folders: Sequence[Path]
    remarks: Sequence[str] = ()
    """Sentences of whoever made the page, which stand first."""
    trials_before: int = 0
    """Trials on the same data that settings were chosen by, and that are not among the runs."""

    @cached_property
    def contests(self) -> Mapping[View, Sequence[Contest]]:
        """What a comparison finds, for the ε of each view."""
        runs = [told.run for told in self.runs]
        return {view: compare(runs, by=self.by, view=view, epsilon=self.epsilon) for view in VIEWS}

    @cached_property
    def configurations(self) -> Sequence[Configuration]:
        """In the order of comparison: by ε, and then from the best down."""
        told = {one.run.folder: one for one in self.runs}
        entries: dict[str, Entry] = {}
        for contest in self.contests["public"]:
            for entry in contest.entries:
                entries.setdefault(entry.key, entry)
        names, contestants = (
            _names(list(entries.values())),
            list(dict.fromkeys(entry.contestant for entry in entries.values())),
        )
        seen: dict[str, int] = {}
        found = []
        for entry in entries.values():
            number = contestants.index(entry.contestant)
            dash = seen[entry.contestant] = seen.get(entry.contestant, -1) + 1
            series = Series(number=number, name=entry.contestant)
            runs = [told[run.folder] for run in entry.runs.values()]
            found.append(Configuration(name=names[entry.key], series=series, dash=dash, runs=runs))
        return found

    def of(self, entry: Entry) -> Configuration:
        return next(one for one in self.configurations if one.first.run.key == entry.key)

    @cached_property
    def sweeps(self) -> Sequence[Mapping[str, Any]]:
        return [read_results(folder) for folder in self.folders if (folder / SWEEP).exists()]

    @property
    def is_simulated(self) -> bool:
        return any(told.run.simulated for told in self.runs)


def _names(entries: Sequence[Entry]) -> dict[str, str]:
    """Labels, with ε where the same label stands at several, and a number where that is not enough."""
    names: dict[str, str] = {}
    for entry in entries:
        same = [other for other in entries if other.label == entry.label]
        name = entry.label if len(same) == 1 else f"{entry.label}, ε {epsilon_text(entry.epsilon)}"
        taken = [other for other in names.values() if other == name or other.startswith(f"{name} (")]
        names[entry.key] = name if not taken else f"{name} ({len(taken) + 1})"
    return names
