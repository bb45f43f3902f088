"""Starting a node from its kit: Flower's own SuperNode, and our attendant, in one light process."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sordino.engine.flower.leash import Leashed

MODULE = "sordino.engine.flower.supernode_process"


def start_node(
    kit: Path, *, data: Path, state: Path, rehearsal: bool = False, idle_seconds: float | None = None
) -> Leashed:
    """Start the node of a kit in the background; what it prints is in `state/node.log`.

    Args:
        kit: the folder that `sordino provision` made.
        data: the node's own data file, or folder, of a format that experiments know.
        state: what the node remembers: its lifetime ledger, spent grants, personal models.
        rehearsal: also answer runs whose noise is seeded, which hides nothing; for tests and demonstrations with made-up rows.
        idle_seconds: how long the process beside the rows is kept without work.

    Example:
        >>> node = start_node(Path("kits/north"), data=Path("north.csv"), state=Path("state/north"))
        >>> node.stop()
    """
    arguments = node_arguments(kit, data=data, state=state, rehearsal=rehearsal, idle_seconds=idle_seconds)
    return Leashed.start(MODULE, arguments, log=state / "node.log", home=state / "flower")


def node_arguments(
    kit: Path, *, data: Path, state: Path, rehearsal: bool = False, idle_seconds: float | None = None
) -> Sequence[str]:
    """What follows the parent's number on the command line of a node's process."""
    return [
        *("--kit", str(kit.resolve())),
        *("--data", str(data.resolve())),
        *("--state", str(state.resolve())),
        *(["--rehearsal"] if rehearsal else []),
        *([] if idle_seconds is None else ["--idle-seconds", str(idle_seconds)]),
    ]
