"""A regime map: what a method gains over its control in each regime of a study, seed by seed, as one picture.

A dot is one seed, the bar their mean. Green: ahead with every seed; red: behind with every seed; grey: seeds disagree, one differs by less
than a tenth of a point, or there is only one, which decides nothing.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib.pyplot as plt

from benchmarks.studies.study import Cell

AHEAD, BEHIND, OPEN = "#1a7f37", "#c0392b", "#6e7781"
WIDTH, MARGIN, ROW = 9.0, 1.1, 0.3
"""In inches, as matplotlib counts."""
LEAST = 0.1
"""Points by which a seed has to be ahead or behind to count: a few test rows are chance."""
GAP = 0.6
"""Rows between two groups, in rows."""


@dataclass(frozen=True, kw_only=True)
class Gain:
    """One regime, such as 3,200 clients at ε = 4."""

    group: str
    """What is held against what: a headline over the regimes that share it."""
    where: str
    method: Cell
    control: Cell
    figure: str = "accuracy"


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What the seeds of one regime gave, in points."""

    gain: Gain
    points: Sequence[float]

    @property
    def mean(self) -> float:
        return statistics.mean(self.points)

    @property
    def colour(self) -> str:
        if len(self.points) < 2:
            return OPEN
        return AHEAD if min(self.points) >= LEAST else BEHIND if max(self.points) <= -LEAST else OPEN

    def __str__(self) -> str:
        if len(self.points) < 2:
            return f"{self.mean:+.1f}, one seed"
        return f"{self.mean:+.1f} ± {statistics.stdev(self.points):.1f}"


def draw(measured: Sequence[Measured], path: Path) -> None:
    """Regimes from top to bottom, grouped by what is compared, points to the left and to the right of nothing."""
    plt.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "sordino", "font.size": 9})
    groups = list(dict.fromkeys(one.gain.group for one in measured))
    rows = len(measured) + (1 + GAP) * len(groups)
    figure, axis = plt.subplots(figsize=(WIDTH, MARGIN + ROW * rows))
    places, labels, place = [], [], 0.0
    for group in groups:
        axis.text(-0.02, place, group, transform=axis.get_yaxis_transform(), ha="right", va="center", weight="bold")
        for one in (one for one in measured if one.gain.group == group):
            place += 1
            _row(axis, place, one)
            places.append(place)
            labels.append(one.gain.where)
        place += 1 + GAP
    axis.axvline(0, color="black", linewidth=0.8)
    axis.set_yticks(places, labels)
    axis.set_ylim(place - GAP, -1)
    axis.set_xlabel("points of accuracy gained (right) or lost (left)")
    axis.grid(axis="x", linewidth=0.3)
    axis.spines[["left", "right", "top"]].set_visible(False)
    axis.tick_params(axis="y", length=0)
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    plt.close(figure)


def _row(axis: plt.Axes, place: float, one: Measured) -> None:
    axis.barh(place, one.mean, height=0.5, color=one.colour, alpha=0.3)
    axis.plot(one.points, [place] * len(one.points), "o", color=one.colour, markersize=4)
    axis.text(1.01, place, str(one), transform=axis.get_yaxis_transform(), va="center", color=one.colour)
