"""What may stand on one axis: figures of one kind on the same data, and ε about the same units, neighbours and δ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from sordino.files import to_json
from sordino.report.comparison.runs import Run

Measure = Literal["accuracy", "own-mix accuracy"]
SAME_DATA = ("data.source", "data.options", "data.test")
NOT_ON_ONE_AXIS = (
    "These runs make {count} tables, because figures on other data, of another kind, or with ε about other units, neighbours or δ "
    "cannot stand on one axis."
)


@dataclass(frozen=True, kw_only=True)
class Axis:
    """A pair of axes, and the runs that stand on it."""

    source: str
    unit: str
    neighbours: str
    delta: float
    measure: Measure
    runs: tuple[Run, ...]

    def figure(self, run: Run) -> float | None:
        return run.accuracy if self.measure == "accuracy" else run.own_mix


def sort_onto_axes(runs: Sequence[Run]) -> list[Axis]:
    """Runs that promise nothing to anybody have no unit, so they join every table about their data.

    Personalised methods are measured by their clients' own-mix accuracy where it is known, and stand beside others that have
    that figure too; others stand together by the accuracy of the shared model.
    """
    free = [run for run in runs if run.promises_nothing]
    groups: dict[_About, list[Run]] = {}
    for run in runs:
        if not run.promises_nothing:
            groups.setdefault(_about(run), []).append(run)
    for run in free:
        joined = [members for about, members in groups.items() if about[0] == _data(run)]
        for members in joined or [groups.setdefault(_about(run), [])]:
            members.append(run)
    return [axis for about, members in groups.items() for axis in _by_measure(about, members)]


_About = tuple[str, str, str, float]
"""Data, unit, neighbours and δ."""


def _about(run: Run) -> _About:
    return _data(run), run.unit, run.neighbours, run.delta


def _data(run: Run) -> str:
    return to_json({key: value for key, value in run.settings.items() if key.startswith(SAME_DATA)})


def _by_measure(about: _About, runs: list[Run]) -> list[Axis]:
    _, unit, neighbours, delta = about
    own = [run for run in runs if run.own_mix is not None]
    shared = [run for run in runs if not (run.personalised and run.own_mix is not None)]
    found: list[tuple[Measure, list[Run]]] = []
    if any(run.accuracy is not None for run in shared):
        found.append(("accuracy", [run for run in shared if run.accuracy is not None]))
    if any(run.personalised for run in own):
        found.append(("own-mix accuracy", own))
    return [
        Axis(
            source=str(members[0].settings["data.source"]),
            unit=unit,
            neighbours=neighbours,
            delta=delta,
            measure=measure,
            runs=tuple(members),
        )
        for measure, members in found
    ]
