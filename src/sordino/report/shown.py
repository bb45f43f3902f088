"""What `sordino show` shows of folders: runs on one table, each sweep on its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from rich.console import RenderableType
from rich.text import Text

from sordino.engine.record import RunRecord, read_summary
from sordino.engine.verify import verify
from sordino.report.findings import drawn_found, read_found
from sordino.report.scores import scores_tables
from sordino.report.sweep_table import sweep_report
from sordino.report.terminal import curve, summary_table, verification_table
from sordino.sweeps.results import FILE as SWEEP
from sordino.sweeps.results import read_results


@dataclass(frozen=True, kw_only=True)
class Shown:
    """A folder and what it holds."""

    folder: Path
    kind: Literal["run", "sweep", "verification", "findings"]
    content: dict[str, Any]


def content_of(folder: Path, *, verified: bool) -> Shown:
    """A run's summary and metrics, a sweep's rows, an audit or attack, or whether a run's ledger holds together."""
    if verified:
        return Shown(folder=folder, kind="verification", content=verify(folder))
    if (folder / SWEEP).exists():
        return Shown(folder=folder, kind="sweep", content=read_results(folder))
    found = read_found(folder)
    if found and not RunRecord(folder).experiment.exists():
        return Shown(folder=folder, kind="findings", content={"found": found})
    summary, metrics = read_summary(folder), RunRecord(folder).read_metrics()
    return Shown(
        folder=folder, kind="run", content={**summary, "metrics": metrics, **({"found": found} if found else {})}
    )


def drawn(shown: Sequence[Shown]) -> list[RenderableType]:
    """Tables for the terminal; a curve where one run is shown alone."""
    runs = [one.content for one in shown if one.kind == "run"]
    folders = [str(one.folder) for one in shown if one.kind == "run"]
    parts: list[RenderableType] = []
    for one in shown:
        if one.kind == "verification":
            parts += [*([Text(str(one.folder))] if len(shown) > 1 else []), verification_table(one.content)]
    if runs:
        parts.append(summary_table(runs, folders if len(runs) > 1 else ()))
    if len(shown) == len(runs) == 1:
        parts += [*scores_tables(runs[0]), curve(runs[0]["metrics"])]
    for one in shown:
        if one.kind == "sweep":
            parts += sweep_report(one.content)
        for found in one.content.get("found", ()):
            parts += drawn_found(one.folder, found)
    return parts
