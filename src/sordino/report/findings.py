"""Audits and attacks that lie in a folder, as `sordino show` shows them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import RenderableType

from sordino.engine.damaged import read_json_object
from sordino.report.attack_table import attack_report
from sordino.report.audit_table import audit_report

FILES = ("audit.json", "attack.json")
_KEYS = {"schema": int, "kind": str, "name": str, "holds": bool}


def read_found(folder: Path) -> list[dict[str, Any]]:
    """What was found about the run in this folder, if anybody looked."""
    advice = "remove it, and audit or attack again"
    return [read_json_object(folder / name, _KEYS, advice=advice) for name in FILES if (folder / name).exists()]


def drawn_found(folder: Path, found: dict[str, Any]) -> list[RenderableType]:
    """One of them as tables."""
    return audit_report(found) if found["kind"] == "audit" else attack_report(found, folder)
