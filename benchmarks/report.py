"""What was measured, as tables for a person and as JSON for a program."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.machine import machine
from benchmarks.targets import Rows, Verdict

RESULTS = Path(__file__).resolve().parent / "results"


@dataclass(frozen=True, kw_only=True)
class Results:
    """One run of the benchmarks."""

    quick: bool
    rows: Mapping[str, Rows]
    failures: Mapping[str, str]
    verdicts: Sequence[Verdict]

    def to_json(self) -> dict[str, Any]:
        return {
            "quick": self.quick,
            "machine": machine(),
            "targets": [
                {"name": v.target.name, "limit": v.target.limit, "measured": v.figure, "met": v.met}
                for v in self.verdicts
            ],
            "failures": dict(self.failures),
            "rows": {name: list(rows) for name, rows in self.rows.items()},
        }

    def tables(self) -> list[tuple[str, list[str], list[list[str]]]]:
        """Title, header and lines of each table, the targets first."""
        judged = [
            [v.target.name, v.target.limit, _shown(v.figure), "met" if v.met else "MISSED"] for v in self.verdicts
        ]
        tables = [("targets", ["target", "limit", "measured", ""], judged)] if judged else []
        for name, rows in self.rows.items():
            header = list(dict.fromkeys(key for row in rows for key in row if key != "benchmark"))
            tables.append((name, header, [[_shown(row.get(key)) for key in header] for row in rows]))
        return tables


def print_tables(results: Results, console: Console) -> None:
    for title, header, lines in results.tables():
        table = Table(*header, title=title, title_justify="left")
        for line in lines:
            table.add_row(*line, style="red" if line[-1] == "MISSED" else None)
        console.print(table)
    for name, reason in results.failures.items():
        console.print(f"[red]{name} failed:[/red] {reason}", highlight=False)


def write_files(results: Results, folder: Path = RESULTS) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(results.to_json(), indent=2, ensure_ascii=False)
    (folder / "latest.json").write_text(text + "\n", encoding="utf-8")
    (folder / "latest.md").write_text(_markdown(results), encoding="utf-8")


def _markdown(results: Results) -> str:
    facts = ", ".join(f"{name} {value}" for name, value in machine().items())
    parts = [f"# Benchmarks{' (a quick look)' if results.quick else ''}\n\n{facts}\n"]
    for title, header, lines in results.tables():
        ruler = ["---"] * len(header)
        parts.append(
            f"\n## {title}\n\n" + "\n".join(f"| {' | '.join(cells)} |" for cells in (header, ruler, *lines)) + "\n"
        )
    parts += [f"\n{name} failed: {reason}\n" for name, reason in results.failures.items()]
    return "".join(parts)


def _shown(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return "" if value is None else str(value)
