"""What audits and attacks leave behind: one JSON file each, beside the run or in a folder of their own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sordino.core import SordinoError
from sordino.engine.record import RunRecord
from sordino.files import make_folder, to_json, write_whole

AUDIT, ATTACK = "audit.json", "attack.json"


def write_found(folder: Path, file: str, content: Mapping[str, Any]) -> Path:
    """Write what was found, whole or not at all."""
    make_folder(folder)
    path = folder / file
    write_whole(path, (to_json(content, indent=2) + "\n").encode())
    return path


def publish_audit(folder: Path, content: Mapping[str, Any]) -> Path:
    """Put the verdict beside a secure run's release. It holds nothing but settings, ε and what canaries proved."""
    release = RunRecord(folder).release
    if not release.is_dir():
        raise SordinoError(
            f"{folder} has no release to put the verdict into, because only finished runs with [privacy] noise_source = 'secure' "
            "have one; leave --publish out."
        )
    return write_found(release, AUDIT, content)
