"""Every judged ratio by processor, one line a run, so that a slip shows."""

from __future__ import annotations

import datetime
import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.lockstep import ROOT
from benchmarks.targets import Verdict
from sordino.processor import processor

RESULTS = ROOT / "benchmarks" / "results"
HISTORY = RESULTS / "history.jsonl"
SLIP = 1.1
"""How many times worse than the last run a figure must be to be mentioned: less is the weather of a shared machine."""


def slips(verdicts: Sequence[Verdict], path: Path = HISTORY) -> list[str]:
    """A sentence for each figure that is clearly worse than when this processor was last measured."""
    last: dict[str, float] = {}
    for entry in _entries(path):
        if entry["processor"] == processor():
            last |= entry["figures"]
    return [
        f"{verdict.target.name} was {last[name]:.3g} the last time, and is {verdict.figure:.3g}"
        for verdict in verdicts
        if (name := verdict.target.name) in last and verdict.figure is not None and _worse(verdict, last[name])
    ]


def keep(verdicts: Sequence[Verdict], path: Path = HISTORY) -> None:
    """Add this run's figures to the file, if it has any."""
    figures = {verdict.target.name: verdict.figure for verdict in verdicts if verdict.figure is not None}
    if not figures:
        return
    entry = {
        "date": datetime.date.today().isoformat(),
        "commit": commit(),
        "processor": processor(),
        "figures": figures,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(entry, ensure_ascii=False) + "\n")


def _worse(verdict: Verdict, last: float) -> bool:
    assert verdict.figure is not None
    larger, smaller = (verdict.figure, last) if verdict.target.at_most is not None else (last, verdict.figure)
    return smaller > 0 and larger / smaller > SLIP


def _entries(path: Path) -> list[Mapping[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def commit() -> str:
    """The short name of the commit that is checked out."""
    done = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, cwd=ROOT, check=False
    )
    return done.stdout.strip() or "unknown"
