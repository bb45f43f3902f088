"""A sweep as a table: one line per configuration, then what failed and what the choice among them costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from sordino.report.terminal import VIEWS, epsilon_text, mean_and_spread, number_text

Row = Mapping[str, Any]

MOST_LISTED = 4
"""Runs that failed for the same reason; --json tells of all."""


def sweep_report(content: Mapping[str, Any]) -> list[Table | Text]:
    """What `sweep.json` holds, for the terminal."""
    rows = [row for row in content["rows"] if row["runs"]]
    parts: list[Table | Text] = [sweep_table(rows, content["configurations_that_touched_private_data"])] if rows else []
    return [*parts, *_problems(content["problems"]), Text(about_choice(content))]


def _problems(problems: Sequence[Row]) -> list[Table | Text]:
    """What failed, those of one reason together."""
    reasons: dict[str, list[str]] = {}
    for one in problems:
        reasons.setdefault(one["sentence"], []).append(f"{_label(one)}, seed {one['seed']}")
    parts: list[Table | Text] = []
    if problems:
        parts.append(Text(f"{len(problems)} runs failed or could not be run:", style="red"))
    for sentence, labels in reasons.items():
        more = f"; and {len(labels) - MOST_LISTED} more" if len(labels) > MOST_LISTED else ""
        parts.append(Text(f"- {sentence} ({'; '.join(labels[:MOST_LISTED])}{more})"))
    return parts


def sweep_table(rows: Sequence[Row], tried: int | None = None) -> Table:
    """Mean and standard deviation over seeds, and the worst ε of each view."""
    tried = len(rows) if tried is None else tried
    table = Table(
        title=f"{tried} configuration{'s' if tried != 1 else ''}, accuracy over seeds",
        box=SIMPLE_HEAD,
        caption="mean ± standard deviation over n seeds; ε of the worst client and seed; area: under accuracy over ε"
        + ("; own: clients in their own mix of labels, outside every ε" if any(map(_has_own, rows)) else ""),
    )
    table.add_column("settings", overflow="fold")
    for column in ("accuracy", "n", *(f"ε\n{view}" for view in VIEWS), "s"):
        table.add_column(column, justify="right", no_wrap=True)
    for row in _joined(rows):
        table.add_row(
            "\n".join(_setting(key, value) for key, value in row["settings"].items()) or "all",
            _accuracy(row),
            str(len(row["accuracies"])),
            *(epsilon_text(row["epsilon"][view]) for view in VIEWS),
            f"{row['seconds']:.1f}",
        )
    return table


def _joined(rows: Sequence[Row]) -> list[Row]:
    """Configurations that are one and the same run, such as one without privacy at each ε, on one line."""
    found: dict[tuple[str, ...], Row] = {}
    for row in rows:
        settings = row["settings"]
        if before := found.get(tuple(row["runs"])):
            earlier = before["settings"]
            settings = {
                key: earlier[key] if value in earlier[key].split(", ") else f"{earlier[key]}, {value}"
                for key, value in settings.items()
            }
        found[tuple(row["runs"])] = {**row, "settings": settings}
    return list(found.values())


def about_choice(content: Mapping[str, Any]) -> str:
    """What may be said of the best of them."""
    if content.get("choice"):
        return str(content["choice"]["sentence"])
    tried = content["configurations_that_touched_private_data"]
    if tried < 2:
        return ""
    return f"{tried} configurations touched the private data. The choice among them is not covered by any ε above; --choose prices it."


def _has_own(row: Row) -> bool:
    return "non_private_own_mix" in row


def _setting(key: str, value: str) -> str:
    return escape(value) if key == "case" else f"[dim]{escape(key.rpartition('.')[2])}=[/dim]{escape(value)}"


def _label(problem: Row) -> str:
    return ", ".join(value if key == "case" else f"{key}={value}" for key, value in problem["settings"].items())


def _accuracy(row: Row) -> str:
    own = row.get("non_private_own_mix")
    area = row["accuracy_epsilon_area"]
    return "\n".join(
        [
            mean_and_spread(row["accuracy"], float(row["spread"])),
            *([f"own {mean_and_spread(own['mean'], float(own['spread']))}"] if own else []),
            f"[dim]AUROC {number_text(row['auroc'])}[/dim]"
            if row.get("mae") is None
            else f"[dim]MAE {row['mae']:.4g}[/dim]",
            *([] if area is None else [f"[dim]area {area:.3f}[/dim]"]),
        ]
    )
