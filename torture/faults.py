"""Disks that fail and processes that die at a chosen call: the shim that does it, and how it is told."""

from __future__ import annotations

import errno
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

SOURCE = Path(__file__).with_name("shim.c")

Way = Literal["once", "sticky", "kill", "kill-after"]
_LETTERS: dict[Way, str] = {"once": "", "sticky": "s", "kill": "k", "kill-after": "a"}


@dataclass(frozen=True, kw_only=True)
class Fault:
    """At the `at`-th call that writes below `root` (from 1; 0 is never): a failing disk, or a SIGKILL.

    `once` fails that call alone; `sticky` all later ones too, but for those that free space; `kill` ends the process before
    the call and `kill-after` after it. With `half`, a write has put half of its bytes on the disk when it fails or dies.
    """

    root: Path
    at: int = 0
    errno: int = 0
    way: Way = "once"
    half: bool = False
    trace: Path | None = None
    """Where every counted call is noted down."""

    def to_json(self) -> dict[str, Any]:
        return {
            "root": str(self.root),
            "at": self.at,
            "errno": self.errno,
            "mode": _LETTERS[self.way] + "h" * self.half,
            "trace": str(self.trace or ""),
        }

    def __str__(self) -> str:
        name = errno.errorcode.get(self.errno, "")
        half = ", after half of the bytes" if self.half else ""
        return f"{name or 'SIGKILL'} ({self.way}{half}) at call {self.at}"


def build_shim(folder: Path) -> Path | None:
    """The shim, compiled; None where there is no C compiler."""
    built = folder / "shim.so"
    try:
        subprocess.run(
            ["gcc", "-O1", "-shared", "-fPIC", "-o", str(built), str(SOURCE), "-ldl"], check=True, capture_output=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return built


def read_trace(path: Path) -> list[str]:
    """The calls that were counted, in order: `write /run/ledger.jsonl`."""
    return [line.partition(" ")[2] for line in path.read_text(encoding="utf-8").splitlines()]
