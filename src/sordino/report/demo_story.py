"""What the demonstration tells: a table and sentences, each made of the figures that were just measured."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from sordino.report.terminal import VIEWS, epsilon_text, mean_and_spread
from sordino.sweeps.results import spread

Rows = Mapping[str, Mapping[str, Any]]
ALONE = "the public images alone"


def rows_by_case(content: Mapping[str, Any]) -> Rows:
    """Rows of a sweep's results by the names of its cases."""
    return {row["settings"]["case"]: row for row in content["rows"] if row["runs"]}


def demo_table(rows: Rows, alone: Sequence[float]) -> Table:
    """Accuracy and ε of every case, and of the public images alone, which cost nobody anything."""
    table = Table(
        title="Digits at 100 clients: what privacy costs and what gives back",
        box=SIMPLE_HEAD,
        caption="accuracy on 1,000 public images: mean ± standard deviation over seeds; ε: of the worst client, against anybody who "
        "sees the models, against the server, against another client; all that one client holds is hidden",
    )
    table.add_column("")
    for column in ("accuracy", *(f"ε\n{view}" for view in VIEWS)):
        table.add_column(column, justify="right", no_wrap=True)
    for name, row in rows.items():
        figure = mean_and_spread(row["accuracy"], float(row["spread"]))
        table.add_row(name, figure, *(epsilon_text(row["epsilon"][view]) for view in VIEWS))
    table.add_row(f"[dim]{ALONE}[/dim]", mean_and_spread(statistics.mean(alone), spread(alone)), "0", "0", "0")
    return table


def demo_sentences(rows: Rows, alone: Sequence[float], *, names: Sequence[str]) -> list[str]:
    """The story in the order of its cases: nothing, scratch, start, head, server."""
    nothing, scratch, start, head, server = (rows[name]["accuracies"] for name in names)
    strict, other = rows[names[3]]["epsilon"], rows[names[4]]["epsilon"]
    return [
        f"Privacy costs {_points(nothing, scratch)}: {_mean(nothing)} without, {_mean(scratch)} from scratch at ε = "
        f"{strict['public']:.3g} against anybody who sees the models.",
        f"A start on public images {_gives(start, scratch)}, and tuning the head alone {_gives(head, start, more=True)}: "
        f"{_mean(head)}. Without any private row it would be {_mean(alone)}.",
        f"That trusts the server to add up and look away (its ε is {epsilon_text(strict['server'])}). Noise on each upload "
        f"promises the server ε = {other['server']:.3g} and everybody else {other['public']:.3g}, at {_mean(server)}.",
    ]


def beats(better: Sequence[float], worse: Sequence[float]) -> bool:
    """Whether every seed does better, by more than either spreads over seeds."""
    least = min(one - other for one, other in zip(better, worse, strict=True))
    return least > max([spread(better), spread(worse)] if len(better) > 1 else [0.0])


def _gives(better: Sequence[float], worse: Sequence[float], *, more: bool = False) -> str:
    gain = 100 * (statistics.mean(better) - statistics.mean(worse))
    if gain <= 0:
        return "gives nothing back"
    sure = " in every seed" if min(a - b for a, b in zip(better, worse, strict=True)) > 0 else " on average"
    return f"gives {gain:.1f} {'more' if more else 'points back'}{sure}"


def _points(higher: Sequence[float], lower: Sequence[float]) -> str:
    return f"{100 * (statistics.mean(higher) - statistics.mean(lower)):.1f} points"


def _mean(values: Sequence[float]) -> str:
    return f"{statistics.mean(values):.1%}"
