"""What audits and attacks found about compared runs, each in one sentence; of secure runs, the published audit alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sordino.engine.record import RunRecord
from sordino.report.comparison.entries import Entry
from sordino.report.comparison.runs import Run
from sordino.report.findings import read_found
from sordino.report.terminal import epsilon_text


def found_about(entry: Entry) -> list[str]:
    """Of every run of a configuration that somebody audited or attacked."""
    return [f"seed {run.seed}: {told}" for run in entry.runs.values() for told in _found(run)]


def _found(run: Run) -> Iterator[str]:
    place: Path = run.folder if run.simulated else RunRecord(run.folder).release
    for content in read_found(place):
        if content["kind"] == "audit":
            yield _audit(content)
        elif run.simulated:
            yield "attacks found no more members than ε allows" if content["holds"] else "an attack beat its ε"


def _audit(content: Mapping[str, Any]) -> str:
    audited = {view: one for view, one in content["views"].items() if one["audited"]}
    proven = ", ".join(
        f"{view} {epsilon_text(one['proven_epsilon'])} of {epsilon_text(one['claimed_epsilon'])}"
        for view, one in audited.items()
    )
    word = "audit holds" if content["holds"] else "audit BROKEN"
    return f"{word} (ε proven of ε claimed: {proven})" if proven else word
