"""The command line, timed from outside as a person meets it."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.lockstep import ROOT, child_environment

EXPERIMENT = """
seed = 1
rounds = 60
[data]
source = "mnist5k"
clients = 100
[model]
name = "mlp"
[method]
name = "dp-fedavg"
batch_size = 20
[privacy]
epsilon = 8.0
delta = 1e-3
expected_cohort = 40.0
"""


def write_experiment(folder: Path) -> Path:
    path = folder / "experiment.toml"
    path.write_text(EXPERIMENT, encoding="utf-8")
    return path


def start(arguments: Sequence[str]) -> subprocess.Popen[Any]:
    """The command in a process of its own, with its modules compiled once, as every installed package is."""
    environment = {name: value for name, value in child_environment().items() if name != "PYTHONDONTWRITEBYTECODE"}
    return subprocess.Popen(
        [sys.executable, "-m", "sordino", *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=environment,
    )


def seconds_of(arguments: Sequence[str]) -> float:
    """How long a command takes from start to end; raises where it fails."""
    begin = time.perf_counter()
    process = start(arguments)
    _, errors = process.communicate()
    seconds = time.perf_counter() - begin
    if process.returncode != 0:
        raise RuntimeError(f"sordino {' '.join(arguments)} failed: {errors.strip().splitlines()[-1:]}")
    return seconds
