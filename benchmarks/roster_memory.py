"""Peak memory of whole runs that differ only in how many clients are on the roster; data and cohort are the same."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.effort import quick, repeats
from benchmarks.lockstep import ROOT, child_environment

ROSTERS = (100, 1_000, 10_000, 100_000)
COHORT, ROWS, COLUMNS, TEST_ROWS, ROUNDS = 50, 100_000, 16, 200, 3


def measure() -> list[dict[str, object]]:
    """One row per roster: peak resident megabytes, and the multiple of the smallest roster's."""
    rosters = ROSTERS if not quick() else (ROSTERS[0], ROSTERS[-1])
    peaks: dict[int, list[float]] = {clients: [] for clients in rosters}
    with tempfile.TemporaryDirectory(prefix="sordino-bench-") as folder:
        _write_data(Path(folder) / "rows.npz")
        for repeat in range(repeats(3, when_quick=1)):
            for clients in rosters:
                peaks[clients].append(_peak_megabytes(Path(folder), clients, repeat))
    medians = {clients: statistics.median(values) for clients, values in peaks.items()}
    return [
        {
            "benchmark": "roster_memory",
            "clients": clients,
            "cohort": COHORT,
            "peak MB": peak,
            f"ratio to {ROSTERS[0]} clients": peak / medians[ROSTERS[0]],
        }
        for clients, peak in medians.items()
    ]


def _write_data(path: Path) -> None:
    import numpy as np

    rng = np.random.default_rng(0)
    arrays = {
        f"{axis}_{split}": values
        for split, rows in (("train", ROWS), ("test", TEST_ROWS))
        for axis, values in (
            ("x", rng.standard_normal((rows, COLUMNS), dtype=np.float32)),
            ("y", rng.integers(10, size=rows)),
        )
    }
    np.savez(path, **arrays)  # type: ignore[arg-type]


def _peak_megabytes(folder: Path, clients: int, repeat: int) -> float:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.roster_memory", str(folder), str(clients), str(repeat)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=child_environment(),
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"the run with {clients} clients failed: {done.stderr.strip().splitlines()[-1:]}")
    return float(done.stdout.splitlines()[-1])


def _run(folder: Path, clients: int, repeat: int) -> float:
    from sordino.engine.run import run_experiment
    from sordino.experiment import experiment

    table: dict[str, Any] = {
        "rounds": ROUNDS,
        "data": {"source": str(folder / "rows.npz"), "clients": clients},
        "model": {"name": "mlp"},
        "method": {"name": "dp-fedavg", "full_batch": True},
        "privacy": {"noise_multiplier": 1.0, "expected_cohort": float(COHORT), "sampler": "fixed-size"},
    }
    run_experiment(experiment(table), folder / f"{clients}-{repeat}")
    return _peak_of_this_process()


def _peak_of_this_process() -> float:
    """Megabytes. `getrusage` would also count the parent's memory from before this program was loaded."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1024
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1024 * 1024 if sys.platform == "darwin" else 1024)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        sys.stdout.write(f"{_run(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))}\n")
    else:
        json.dump(measure(), sys.stdout, indent=2)
