"""A sweep of 36 cells and three seeds, run one by one and with `--jobs 2`: the same models and ledgers, in how much less time?

Four methods in six cases, two budgets and three places of the noise. `fedceo` uses uploads one by one and cannot have central noise, so
two cells must fail, and the others must go on.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.effort import quick
from benchmarks.lockstep import ROOT, child_environment

SWEEP = """
name = "jobs"
seed = 1
rounds = {rounds}
[data]
source = "mnist5k"
clients = 100
test = "public-split"
[model]
name = "mlp"
hidden = [64]
[privacy]
delta = 1e-3
expected_cohort = 20
[engine]
schedule = "{schedule}"
[[case]]
name = "dp-fedavg"
method = {{ name = "dp-fedavg", epochs = 1 }}
[[case]]
name = "dp-fedavg, long"
method = {{ name = "dp-fedavg", epochs = 3 }}
[[case]]
name = "dp-fedadam"
method = {{ name = "dp-fedadam", epochs = 1 }}
[[case]]
name = "dp-fedadam, long"
method = {{ name = "dp-fedadam", epochs = 3 }}
[[case]]
name = "ppsgd"
method = "ppsgd"
[[case]]
name = "fedceo"
method = "fedceo"
"""
OVER = ("privacy.epsilon=2,8", "privacy.noise=central,distributed,local")
CELLS, SEEDS, REFUSED = 36, 3, 2
BITS = ("model.safetensors", "ledger.jsonl")
CLOSE = 2e-3
"""How far accuracies may lie apart, two rows in a thousand: side by side a process has one thread, which may round otherwise."""


def measure() -> list[dict[str, object]]:
    """Seconds of both, and their ratio; raises where a table is not as it must be, or a bit differs."""
    with tempfile.TemporaryDirectory(prefix="sordino-bench-") as folder:
        file = Path(folder) / "jobs.toml"
        file.write_text(SWEEP.format(rounds=1 if quick() else 15, schedule="workers"), encoding="utf-8")
        outs = {jobs: Path(folder) / f"jobs-{jobs}" for jobs in (1, 2)}
        seconds = {jobs: _swept(file, out, jobs) for jobs, out in outs.items()}
        one, two = (_bits(out) for out in outs.values())
        figures = [_figures(out) for out in outs.values()]
    if one != two or len(one) != len(BITS) * SEEDS * (CELLS - REFUSED):
        raise RuntimeError(f"{len(one)} and {len(two)} files of runs were left behind, and they differ")
    if len(figures[0]) != len(figures[1]) or not np.allclose(*figures, rtol=0, atol=CLOSE):
        raise RuntimeError("accuracies differ")
    return [
        {"benchmark": "sweep_jobs", "jobs": jobs, "seconds": time, "one by one / this": seconds[1] / time}
        for jobs, time in seconds.items()
    ]


def _swept(file: Path, out: Path, jobs: int) -> float:
    """How long the command takes; its table must have every cell, with two refused."""
    axes = [part for axis in OVER for part in ("--over", axis)]
    command = ["sweep", str(file), *axes, "--seeds", str(SEEDS), "--jobs", str(jobs), "--out", str(out), "--json"]
    begin = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "sordino", *command],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=child_environment(),
        check=False,
    )
    seconds = time.perf_counter() - begin
    if done.returncode != 1:  # as it is where cells failed and the others went on
        raise RuntimeError(f"the sweep ended with exit code {done.returncode}: {done.stderr[-500:]}")
    _check(json.loads(done.stdout))
    return seconds


def _check(table: dict[str, Any]) -> None:
    """36 rows: two without a run, each told of once for every seed, and 34 with all seeds."""
    refused = [row for row in table["rows"] if not row["runs"]]
    whole = [row for row in table["rows"] if len(row["runs"]) == len(row["accuracies"]) == SEEDS]
    if (len(table["rows"]), len(refused), len(whole)) != (CELLS, REFUSED, CELLS - REFUSED):
        raise RuntimeError(f"{len(whole)} of {len(table['rows'])} cells are whole and {len(refused)} have no run")
    if {(row["settings"]["case"], row["settings"]["privacy.noise"]) for row in refused} != {("fedceo", "central")}:
        raise RuntimeError(f"other cells failed than those that must: {[row['settings'] for row in refused]}")
    if len(table["problems"]) != REFUSED * SEEDS:
        raise RuntimeError(f"{len(table['problems'])} problems are told of, but there are {REFUSED * SEEDS}")


def _bits(out: Path) -> dict[str, str]:
    """What the runs left behind, by file."""
    return {
        str(path.relative_to(out)): hashlib.sha256(path.read_bytes()).hexdigest()
        for name in BITS
        for path in sorted(out.rglob(name))
    }


def _figures(out: Path) -> list[float]:
    """The accuracy of every evaluation of every run."""
    lines = [line for path in sorted(out.rglob("metrics.jsonl")) for line in path.read_text().splitlines()]
    return [json.loads(line)["accuracy"] for line in lines]


if __name__ == "__main__":
    json.dump(measure(), sys.stdout, indent=2)
