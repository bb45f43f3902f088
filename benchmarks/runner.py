"""Runs one benchmark in a fresh process, so that no setting of one leaks into the next."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from typing import Any

from benchmarks.lockstep import ROOT, child_environment

BENCHMARKS = (
    "dp_sgd_step",
    "rounds",
    "noise",
    "accounting",
    "startup",
    "neighbours",
    "cached_head",
    "roster_memory",
    "growth",
    "tensor_lowrank",
    "smoothing_share",
)

APART = ("plans_against_runs", "federation_load", "sweep_jobs", "page_opening")
"""Measured when named, and not by `make bench`: each takes minutes and both cores for itself, or needs a browser."""

_ROWS = "@rows "


class Failed(Exception):
    """A benchmark ended with an error; says which."""


def run(name: str) -> list[dict[str, Any]]:
    """The rows that a benchmark's `measure` returns."""
    done = subprocess.run(
        [sys.executable, "-c", f"from benchmarks.runner import print_rows; print_rows({name!r})"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=child_environment(),
        check=False,
    )
    for line in done.stdout.splitlines():
        if line.startswith(_ROWS):
            rows: list[dict[str, Any]] = json.loads(line.removeprefix(_ROWS))
            return rows
    raise Failed((done.stderr.strip().splitlines() or ["it left without a word"])[-1])


def print_rows(name: str) -> None:
    rows = importlib.import_module(f"benchmarks.{name}").measure()
    sys.stdout.write(f"\n{_ROWS}{json.dumps(rows)}\n")
