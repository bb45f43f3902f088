"""Where a node remembers: its lifetime ledger, spent grants and personal models, outside the kit, so that it can be installed again."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sordino.files import SECRET_FILE, disk_errors, locked

STATE_VARIABLE = "SORDINO_STATE"
LEDGER, LOG, HEALTH = "ledger.jsonl", "log.jsonl", "health.json"
OWNER_ALONE = SECRET_FILE | 0o100


def states() -> Path:
    """The folder of all nodes' states on this machine: `$SORDINO_STATE`, or where the system keeps state."""
    told = os.environ.get(STATE_VARIABLE)
    home = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(told) if told else Path(home) / "sordino"


def state_folder(name: str) -> Path:
    """The state of the node of this name; a kit that is installed again, or has another key, finds the same."""
    return states() / name


def other_states(folder: Path) -> list[Path]:
    """Ledgers of other nodes beside this one: if they are about the same rows, their ε add up."""
    beside = folder.parent.glob(f"*/{LEDGER}") if folder.parent.is_dir() else ()
    return sorted(path.parent for path in beside if path.parent != folder)


@contextmanager
def held(folder: Path) -> Iterator[Path]:
    """The state folder, made if it is missing, for this process alone."""
    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True, mode=OWNER_ALONE)
    busy = (
        f"Another process uses the node's state {folder}; two nodes with one ledger could spend more than its limits, so stop that one "
        "first."
    )
    with locked(folder / ".lock", busy=busy):
        yield folder
