"""A comparison in the terminal: a table, a front, the differences, and a sentence."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from sordino.report.comparison.axes import NOT_ON_ONE_AXIS
from sordino.report.comparison.comparing import Contest
from sordino.report.comparison.entries import Entry
from sordino.report.comparison.found import found_about
from sordino.report.comparison.front import draw_front
from sordino.report.comparison.significance import Difference
from sordino.report.joints import Jointed
from sordino.report.terminal import epsilon_text, mean_and_spread

MOST_DIFFERENCES = 12
"""More are told of in JSON alone."""


def comparison_report(contests: Sequence[Contest], *, about_choice: str) -> list[Table | Text]:
    """Everything, from top to bottom."""
    parts: list[Table | Text] = []
    if len(contests) > 1:
        parts.append(Text(NOT_ON_ONE_AXIS.format(count=len(contests))))
    for contest in contests:
        parts += _contest(contest)
    return [*parts, Text(about_choice)]


def _contest(contest: Contest) -> list[Table | Text]:
    axis = contest.axis
    front = draw_front(contest.entries, view=contest.view, measure=axis.measure)
    differ = f"They also differ in {', '.join(contest.also_differ)}." if contest.also_differ else ""
    return [
        _table(contest),
        *([Text(front + "\n")] if front else []),
        *([_differences(contest)] if contest.verdict.differences else []),
        *([Text(differ, style="dim")] if differ else []),
        *(Text(f"{entry.label}, {told}") for entry in contest.entries for told in found_about(entry)),
        Text(contest.verdict.sentence + "\n", style="bold"),
    ]


def _table(contest: Contest) -> Table:
    axis = contest.axis
    own = "; clients in their own mix of labels, which is outside every ε" if axis.measure != "accuracy" else ""
    table = Table(
        title=f"{axis.source}: {axis.measure} by {contest.by}",
        box=SIMPLE_HEAD,
        caption=f"ε of the worst client in the {contest.view} view, {axis.unit} level, {axis.neighbours}, δ = {axis.delta:g}; "
        f"{axis.measure}: mean ± standard deviation over n seeds{own}; s and MB: of one run; ●: on the front",
    )
    table.add_column(Jointed((contest.by, "")))
    for column in (f"ε {contest.view}", axis.measure, "n", "s", "MB", ""):
        table.add_column(column, justify="right", no_wrap=True)
    for entry in contest.entries:
        table.add_row(*_cells(entry), "●" if contest.is_on_front(entry) else "")
    return table


def _cells(entry: Entry) -> list[RenderableType]:
    known, *others = entry.label.split(", ", 1)
    return [
        Jointed((known, ""), *((other, "dim") for other in others)),
        epsilon_text(entry.epsilon),
        mean_and_spread(entry.mean, entry.spread),
        str(len(entry.figures)),
        "–" if entry.seconds is None else f"{entry.seconds:.1f}",
        "–" if entry.megabytes is None else f"{entry.megabytes:.3g}",
    ]


def _differences(contest: Contest) -> Table:
    verdict = contest.verdict
    shown = sorted(verdict.differences, key=lambda one: _rank(one, contest))[:MOST_DIFFERENCES]
    hidden = len(verdict.differences) - len(shown)
    at = "" if math.isinf(verdict.budget) else f" at ε ≤ {verdict.budget:.4g}"
    table = Table(
        title=f"Differences{at}",
        box=SIMPLE_HEAD,
        caption="paired t-test over seeds, p by Holm's correction for all pairs"
        + (f"; {hidden} more pairs with --json" if hidden else ""),
    )
    for column in ("better", "than"):
        table.add_column(column)
    for column in ("by points", "p", ""):
        table.add_column(column, justify="right", no_wrap=True)
    for one in shown:
        table.add_row(Jointed((one.first, "")), Jointed((one.second, "")), _points(one), _p(one), _word(one))
    return table


def _rank(one: Difference, contest: Contest) -> tuple[bool, float]:
    """The leader's differences first, then from the surest down."""
    return one.first != contest.verdict.compared[0].label, 2.0 if one.corrected is None else one.corrected


def _points(one: Difference) -> str:
    if not one.pairs:
        return "–"
    return f"{100 * one.mean:.2f}" if math.isnan(one.spread) else f"{100 * one.mean:.2f} ± {100 * one.spread:.2f}"


def _p(one: Difference) -> str:
    return "–" if one.corrected is None else "< 0.001" if one.corrected < 1e-3 else f"{one.corrected:.3f}"


def _word(one: Difference) -> str:
    return "untested" if one.corrected is None else "more than noise" if one.more_than_noise else "noise"
