"""Configurations with their seeds, as contestants of a comparison."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sordino.core import SordinoError, View
from sordino.experiment import MEMBERS
from sordino.files import to_json
from sordino.report.comparison.axes import Axis
from sordino.report.comparison.runs import PRIVACY_LEVEL, Run


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One configuration: its runs by replicate, and what it reached at which ε of one view."""

    label: str
    contestant: str
    """The value of the setting that is compared by."""
    line: str
    """The same for configurations that differ in how private they are, and in nothing else."""
    epsilon: float
    """The largest over replicates."""
    runs: Mapping[Hashable, Run]
    figures: Mapping[Hashable, float]

    @property
    def key(self) -> str:
        """The same for the same configuration on another axis."""
        return next(iter(self.runs.values())).key

    @property
    def mean(self) -> float:
        return statistics.mean(self.figures.values())

    @property
    def spread(self) -> float:
        return statistics.stdev(self.figures.values()) if len(self.figures) > 1 else math.nan

    @property
    def seconds(self) -> float | None:
        return _mean([run.seconds for run in self.runs.values()])

    @property
    def megabytes(self) -> float | None:
        """Up and down, of a whole run."""
        traffic = [None if run.bytes_up is None else run.bytes_up + (run.bytes_down or 0) for run in self.runs.values()]
        total = _mean(traffic)
        return None if total is None else total / 1e6


def make_entries(axis: Axis, *, by: str, view: View) -> list[Entry]:
    """Group the runs of an axis, by ε and then from the best down."""
    groups: dict[str, dict[Hashable, Run]] = {}
    for run in axis.runs:
        _add(groups.setdefault(run.key, {}), run)
    varied = {name: _described(runs) for name, runs in _contestants(axis.runs, by).items()}
    entries = [_entry(runs, axis, by, view, varied) for runs in groups.values()]
    return sorted(_told_apart(entries), key=lambda entry: (entry.epsilon, -entry.mean))


def _described(runs: Sequence[Run]) -> list[str]:
    """Settings by which the runs of one contestant are called: the case, where there are several, stands for all that goes with it."""
    varied = varying([runs])
    cases = "case" in varied and all("case" in run.settings for run in runs)
    return ["case", *varying(_contestants(runs, "case").values())] if cases else varied


def _told_apart(entries: Sequence[Entry]) -> Iterator[Entry]:
    """Entries of one label and one ε, as ∞ in the server's view, are told apart by what was asked for."""
    alike = Counter((entry.label, entry.epsilon) for entry in entries)
    for entry in entries:
        asked = next(iter(entry.runs.values())).settings
        level = [f"{_short(key)}={_text(asked[key])}" for key in PRIVACY_LEVEL if asked.get(key) is not None]
        apart = alike[entry.label, entry.epsilon] > 1
        yield dataclasses.replace(entry, label=", ".join([entry.label, *level])) if apart else entry


def _add(runs: dict[Hashable, Run], run: Run) -> None:
    """A simulation that was run twice is one replicate; secure runs with one seed have noise of their own."""
    if run.simulated:
        runs.setdefault(run.seed, run)
    else:
        runs[run.seed, sum(one.seed == run.seed for one in runs.values())] = run


def _entry(runs: Mapping[Hashable, Run], axis: Axis, by: str, view: View, varied: Mapping[str, Sequence[str]]) -> Entry:
    first = next(iter(runs.values()))
    contestant = value_of(first, by)
    others = [f"{_short(key)}={_text(first.settings[key])}" for key in varied[contestant] if key in first.settings]
    rest = {key: value for key, value in first.settings.items() if key not in PRIVACY_LEVEL}
    figures = {replicate: axis.figure(run) for replicate, run in runs.items()}
    return Entry(
        label=", ".join([contestant, *others]),
        contestant=contestant,
        line=to_json(rest),
        epsilon=max(run.epsilon[view] for run in runs.values()),
        runs=runs,
        figures={replicate: figure for replicate, figure in figures.items() if figure is not None},
    )


def choose_by(runs: Sequence[Run]) -> str:
    """What to compare by where nobody says: cases of a sweep, else methods, or else the first setting that differs."""
    varied = varying([runs])
    if "case" in varied and all("case" in run.settings for run in runs):
        return "case"
    return "method" if len({run.method for run in runs}) > 1 or not varied else varied[0].removesuffix(".name")


def varying(groups: Iterable[Sequence[Run]]) -> list[str]:
    """Settings, other than how private a run is, in which runs of one group differ; to have none is a difference too."""
    found: dict[str, None] = {}
    for runs in groups:
        for key in dict.fromkeys(key for run in runs for key in run.settings):
            if key not in PRIVACY_LEVEL and len({to_json([run.settings.get(key)]) for run in runs}) > 1:
                found[key] = None
    return list(found)


def also_differ(runs: Sequence[Run], by: str) -> list[str]:
    """Settings that go with the contestants, besides those of the section that is compared by."""
    told = varying(_contestants(runs, by).values())
    section = by.partition(".")[0]
    candidates = [key for key in varying([runs]) if key not in told and key.partition(".")[0] != section]
    return [key for key in candidates if len({to_json([run.settings[key]]) for run in runs if key in run.settings}) > 1]


def _contestants(runs: Sequence[Run], by: str) -> dict[str, list[Run]]:
    groups: dict[str, list[Run]] = {}
    for run in runs:
        groups.setdefault(value_of(run, by), []).append(run)
    return groups


def value_of(run: Run, by: str) -> str:
    """A run's value of the setting that is compared by: `method` is short for `method.name`, and so on."""
    named = f"{by}.name"
    if by in run.settings:
        return _text(run.settings[by])
    if named in run.settings:
        return _text(run.settings[named])
    if not any(key.startswith(f"{by.partition('.')[0]}.") or key == by for key in run.settings):
        known = ", ".join(sorted({*MEMBERS} - {"partition", "mechanism"}))
        raise SordinoError(
            f"--by takes a setting such as {known} or method.epochs, but got {by!r}; name one the runs have."
        )
    return f"no {by}"


def _short(key: str) -> str:
    return key.removesuffix(".name").rpartition(".")[2]


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else value if isinstance(value, str) else to_json(value)


def _mean(values: Sequence[float | int | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.mean(known) if known and len(known) == len(values) else None
