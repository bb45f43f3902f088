"""What the files of a run record must hold, so that whoever reads them can count on it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sordino.core import VIEWS
from sordino.engine.damaged import NUMBER, Needed, checked_object, read_json_lines, read_json_object

EXPERIMENT_KEYS: Needed = {"fingerprint": str, "experiment": dict, "facts": dict, "versions": dict}
METRICS_KEYS: Needed = {"round": int, "accuracy": NUMBER, "epsilon": (*NUMBER, str)}
SUMMARY_KEYS: Needed = {
    "name": str,
    "method": str,
    "unit": str,
    "neighbours": str,
    "view": str,
    "accuracy": NUMBER,
    "epsilon": dict,
    "noise_multiplier": NUMBER,
    "seconds": NUMBER,
    "warnings": list,
    "non_private_diagnostics": dict,
}
PRETRAINED_KEYS: Needed = {"kind": str, "settings": dict, "seed": int, "model": dict, "shape": list, "classes": int}
VIEW_KEYS: Needed = {"epsilon": (*NUMBER, str), "delta": NUMBER, "per_client": dict}


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
    advice = "restore it from a copy, or run the experiment again in another --out folder"
    summary = read_json_object(path, SUMMARY_KEYS, advice=advice)
    for view in VIEWS:
        checked_object(summary["epsilon"].get(view), VIEW_KEYS, what=f"The {view} view in {path}", advice=advice)
    return summary
