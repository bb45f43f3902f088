"""How long a person waits: for help, and from `sordino run` until the first round starts and is done."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.command import seconds_of, start, write_experiment
from benchmarks.effort import repeats

LONGEST_WAIT_SECONDS = 120.0
POLL_SECONDS = 0.002


def measure() -> list[dict[str, object]]:
    """Median seconds. Both moments are seen from outside: the record is opened right before the first round."""
    times = repeats(5)
    helps = [seconds_of(["--help"]) for _ in range(times)]
    imports = [_seconds_to_import_torch() for _ in range(times)]
    starts, ends = zip(*(_seconds_to_first_round() for _ in range(times)), strict=True)
    return [
        {"benchmark": "startup", "what": "sordino --help", "seconds": statistics.median(helps)},
        {"benchmark": "startup", "what": "import torch, nothing else", "seconds": statistics.median(imports)},
        {"benchmark": "startup", "what": "first round starts", "seconds": statistics.median(starts)},
        {"benchmark": "startup", "what": "first round done", "seconds": statistics.median(ends)},
    ]


def _seconds_to_import_torch() -> float:
    """What no run can go below."""
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import torch"], check=True)
    return time.perf_counter() - begin


def _seconds_to_first_round() -> tuple[float, float]:
    with tempfile.TemporaryDirectory(prefix="sordino-bench-") as folder:
        out = Path(folder) / "run"
        arguments = ["run", str(write_experiment(Path(folder))), "--out", str(out), "--json"]
        begin = time.perf_counter()
        process = start(arguments)
        try:
            opened = _seconds_until(out / "experiment.json", process, begin)
            return opened, _seconds_until(out / "checkpoint.safetensors", process, begin)
        finally:
            process.kill()
            process.communicate()


def _seconds_until(path: Path, process: subprocess.Popen[Any], begin: float) -> float:
    while not path.exists():
        if process.poll() is not None or time.perf_counter() - begin > LONGEST_WAIT_SECONDS:
            raise RuntimeError(f"sordino run ended without {path.name}: {process.communicate(timeout=1)[1]}")
        time.sleep(POLL_SECONDS)
    return time.perf_counter() - begin


if __name__ == "__main__":
    json.dump(measure(), sys.stdout, indent=2)
