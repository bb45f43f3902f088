"""What the files of a run record must hold, so that whoever reads them can count on it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sordino.core import VIEWS
from sordino.engine.damaged import MAYBE_NUMBER, NUMBER, Needed, checked_object, read_json_lines, read_json_object

EXPERIMENT_KEYS: Needed = {"fingerprint": str, "experiment": dict, "facts": dict, "versions": dict}
METRICS_KEYS: Needed = {"round": int, "accuracy": NUMBER, "epsilon": (*NUMBER, str)}
PUBLISHED_KEYS: Needed = {
    "name": str,
    "method": str,
    "unit": str,
    "neighbours": str,
    "view": str,
    "accuracy": MAYBE_NUMBER,
    "epsilon": dict,
    "noise_multiplier": NUMBER,
    "warnings": list,
}
"""Of a summary that may be published; an accuracy that could not be paid for is null."""
SUMMARY_KEYS: Needed = {**PUBLISHED_KEYS, "seconds": NUMBER, "non_private_diagnostics": dict}
PRETRAINED_KEYS: Needed = {"kind": str, "settings": dict, "seed": int, "model": dict, "shape": list, "classes": int}
PUBLISHED_VIEW_KEYS: Needed = {"epsilon": (*NUMBER, str), "delta": NUMBER}
VIEW_KEYS: Needed = {**PUBLISHED_VIEW_KEYS, "per_client": dict}


def read_experiment_file(path: Path) -> dict[str, Any]:
    """What a run was begun with: its experiment by name, and the facts that were settled then."""
    advice = f"{path.parent} is not a run folder or is damaged, so give the folder that --out named"
    content = read_json_object(path, EXPERIMENT_KEYS, advice=advice)
    checked_object(content["experiment"], {"name": str}, what=f"The experiment in {path}", advice=advice)
    checked_object(content["facts"], {"schedule": str, "folder": str}, what=f"The facts in {path}", advice=advice)
    return content


def read_metrics_file(path: Path) -> list[dict[str, Any]]:
    return read_json_lines(path, METRICS_KEYS, advice="remove that line, or restore the file from a copy")


def read_summary_file(path: Path) -> dict[str, Any]:
    """A summary with all that tables and sweeps read of it."""
    return _summary(path, SUMMARY_KEYS, VIEW_KEYS)


def read_published_file(path: Path) -> dict[str, Any]:
    """The summary in the part of a secure run that may be published: it lacks what tells of the cohort."""
    return _summary(path, PUBLISHED_KEYS, PUBLISHED_VIEW_KEYS)


def _summary(path: Path, needed: Needed, of_each_view: Needed) -> dict[str, Any]:
    advice = "restore it from a copy, or run the experiment again in another --out folder"
    summary = read_json_object(path, needed, advice=advice)
    for view in VIEWS:
        checked_object(summary["epsilon"].get(view), of_each_view, what=f"The {view} view in {path}", advice=advice)
    return summary
