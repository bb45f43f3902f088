"""What must hold, as questions that are answered with a complaint in one sentence, or with nothing."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

from torture.processes import Ended
from torture.repricing import VIEWS, CannotPrice, agree, facts_of, read_rows, reprice
from torture.toml import Table

SETTLED = ("model.safetensors", "metrics.jsonl", "ledger.jsonl")
"""What is the same, bit for bit, after every interruption of a seeded run."""

_PROGRESS = re.compile(r"[━╸╺]|^\s*$|^training \d+/\d+: [\d.]+% at ε ")
"""The bar that a run draws on a terminal, and the line that it prints for each evaluation where there is none."""


def refusal(ended: Ended) -> str | None:
    """Whether a command ended with exit code 2 and one sentence."""
    if ended.code != 2:
        return f"the exit code is {ended.code} and not 2 ({_last_line(ended)})"
    return not_a_sentence(ended)


def not_a_sentence(ended: Ended) -> str | None:
    lines = [line for line in ended.err.splitlines() if not _PROGRESS.search(line)]
    if "Traceback" in ended.err:
        return f"a traceback came: {_last_line(ended)}"
    if len(lines) != 1:
        return f"one line was expected on stderr, but there are {len(lines)} ({_last_line(ended)})"
    if not lines[0].startswith("sordino: ") or not lines[0].rstrip().endswith((".", "?")):
        return f"no sentence of sordino's own: {lines[0][:200]}"
    return None


def success(ended: Ended) -> str | None:
    return None if ended.code == 0 else f"the exit code is {ended.code} and not 0 ({_last_line(ended)})"


def same_bits(out: Path, unbroken: Path) -> str | None:
    """Whether a seeded run ended as an unbroken one does."""
    for name in SETTLED:
        if not (out / name).exists():
            return f"{name} is missing"
        if (out / name).read_bytes() != (unbroken / name).read_bytes():
            return f"{name} is not the unbroken run's, bit for bit{_how(out / name, unbroken / name)}"
    return None


def price_holds(out: Path, table: Table) -> str | None:
    """Whether the ledger, priced from its file alone, is within the budget and what the summary says."""
    summary = read_summary(out)
    header, rows = read_rows(out / "ledger.jsonl")
    try:
        priced = reprice(rows, facts_of(header, summary))
    except CannotPrice as unknown:
        return f"the ledger cannot be priced by a second accountant: {unknown}"
    for view in VIEWS:
        said = float(summary["epsilon"][view]["epsilon"])
        if not agree(said, priced[view]):
            return f"in the {view} view the ledger costs ε = {priced[view]:.4f}, but the summary says {said:.4f}"
    privacy = table["privacy"]
    budget, view = privacy.get("epsilon", math.inf), privacy.get("view", "public")
    said = float(summary["epsilon"][view]["epsilon"])
    if said > budget or not (priced[view] <= budget or agree(priced[view], budget)):
        return f"the budget is {budget}, but the ledger costs ε = {priced[view]:.4f} and the summary says {said:.4f}"
    return fewer_rounds_unsaid(out, summary, table["rounds"])


def fewer_rounds_unsaid(out: Path, summary: dict[str, Any], rounds: int) -> str | None:
    """Whether a run that ended before its last round keeps that to itself."""
    done = 1 + max((json.loads(row)["round"] for row in (out / "metrics.jsonl").read_text().splitlines()), default=-1)
    if done == rounds or summary["rounds"] == done:
        return None
    figures = [value for key, value in summary.items() if "round" in key and not isinstance(value, dict)]
    if done in figures or any("round" in str(warning) for warning in summary["warnings"]):
        return None
    return f"only {done} of {rounds} rounds were done, which the summary does not say"


def read_summary(out: Path) -> dict[str, Any]:
    summary: dict[str, Any] = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    return summary


def leftovers(folder: Path) -> str | None:
    """Whether an unfinished file lies about."""
    found = [str(path.relative_to(folder)) for path in folder.rglob("*") if ".tmp" in path.name]
    return f"{', '.join(found)} was left" if found else None


def _how(one: Path, other: Path) -> str:
    if one.suffix != ".jsonl":
        return ""
    ours, theirs = (path.read_text(encoding="utf-8").splitlines() for path in (one, other))
    if len(ours) != len(theirs):
        return f" ({len(ours)} lines where {len(theirs)} were expected)"
    place = next(number for number, (a, b) in enumerate(zip(ours, theirs, strict=True)) if a != b)
    return f" (first in line {place + 1})"


def _last_line(ended: Ended) -> str:
    lines = ended.err.strip().splitlines()
    return lines[-1][:300] if lines else "nothing on stderr"
