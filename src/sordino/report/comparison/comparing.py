"""A comparison of runs: what is found on each axis, and all of it as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sordino.core import View
from sordino.report.comparison.axes import Axis, sort_onto_axes
from sordino.report.comparison.entries import Entry, also_differ, choose_by, make_entries
from sordino.report.comparison.found import found_about
from sordino.report.comparison.runs import Run
from sordino.report.comparison.verdict import Verdict, judge


@dataclass(frozen=True, kw_only=True)
class Contest:
    """What was found on one axis."""

    axis: Axis
    by: str
    view: View
    entries: Sequence[Entry]
    verdict: Verdict
    also_differ: Sequence[str]

    def is_on_front(self, entry: Entry) -> bool:
        """Whether no other configuration is at least as good at no larger ε."""
        return not any(
            other is not entry
            and other.epsilon <= entry.epsilon
            and other.mean >= entry.mean
            and (other.epsilon, other.mean) != (entry.epsilon, entry.mean)
            for other in self.entries
        )

    def to_json(self) -> dict[str, Any]:
        axis = self.axis
        return {
            "data": axis.source,
            "measure": axis.measure,
            "view": self.view,
            "unit": axis.unit,
            "neighbours": axis.neighbours,
            "delta": axis.delta,
            "by": self.by,
            "configurations": len(self.entries),
            "also_differ_in": list(self.also_differ),
            "entries": [self._entry(entry) for entry in self.entries],
            "budget": self.verdict.budget,
            "compared": [entry.label for entry in self.verdict.compared],
            "differences": [{**vars(one), "more_than_noise": one.more_than_noise} for one in self.verdict.differences],
            "winner": self.verdict.winner,
            "sentence": self.verdict.sentence,
        }

    def _entry(self, entry: Entry) -> dict[str, Any]:
        return {
            "label": entry.label,
            self.by: entry.contestant,
            "epsilon": entry.epsilon,
            "mean": entry.mean,
            "spread": entry.spread,
            "figures": list(entry.figures.values()),
            "seconds": entry.seconds,
            "megabytes": entry.megabytes,
            "on_front": self.is_on_front(entry),
            "runs": [str(run.folder) for run in entry.runs.values()],
            "found": found_about(entry),
        }


def compare(
    runs: Sequence[Run], *, by: str | None = None, view: View = "public", epsilon: float | None = None
) -> list[Contest]:
    """Compare runs on as many axes as they need; `epsilon` is the budget in `view` at which a winner is asked for."""
    return [_contest(axis, by or choose_by(axis.runs), view, epsilon) for axis in sort_onto_axes(runs)]


def _contest(axis: Axis, by: str, view: View, epsilon: float | None) -> Contest:
    entries = make_entries(axis, by=by, view=view)
    return Contest(
        axis=axis,
        by=by,
        view=view,
        entries=entries,
        verdict=judge(entries, budget=epsilon, by=by),
        also_differ=also_differ(axis.runs, by),
    )
