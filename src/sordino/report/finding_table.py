"""What a preflight found, as a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.table import Table

from sordino.operating.finding import Finding

MARKS = {"ok": "[green]ok[/]", "note": "[yellow]note[/]", "wrong": "[red]wrong[/]"}


def findings_table(found: Sequence[Finding]) -> list[Any]:
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    for one in found:
        table.add_row(MARKS[one.level], one.what, _plain(one.sentence))
    wrong = sum(one.level == "wrong" for one in found)
    last = "Ready: nothing stands in the way." if not wrong else f"Not ready: {wrong} of {len(found)} checks failed."
    return [table, last]


def _plain(sentence: str) -> str:
    """Square brackets are ours, not rich's."""
    return sentence.replace("[", r"\[")
