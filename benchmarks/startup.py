"""How long a person waits: for help, and from `sordino run` until the first round is done."""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.command import seconds_of, start, write_experiment
from benchmarks.effort import repeats

LONGEST_WAIT_SECONDS = 120.0
POLL_SECONDS = 0.002


def measure() -> list[dict[str, object]]:
    """Median seconds. The end of the first round is seen from outside, so the figure is above that of its start."""
    times = repeats(5)
    helps = [seconds_of(["--help"]) for _ in range(times)]
    first_rounds = [_seconds_to_first_round() for _ in range(times)]
    return [
        {"benchmark": "startup", "what": "sordino --help", "seconds": statistics.median(helps)},
        {"benchmark": "startup", "what": "first round done", "seconds": statistics.median(first_rounds)},
    ]


def _seconds_to_first_round() -> float:
    with tempfile.TemporaryDirectory(prefix="sordino-bench-") as folder:
        out = Path(folder) / "run"
        arguments = ["run", str(write_experiment(Path(folder))), "--out", str(out), "--json"]
        begin = time.perf_counter()
        process = start(arguments)
        try:
            while not (out / "checkpoint.safetensors").exists():
                if process.poll() is not None or time.perf_counter() - begin > LONGEST_WAIT_SECONDS:
                    raise RuntimeError(f"sordino run ended without a round: {process.communicate(timeout=1)[1]}")
                time.sleep(POLL_SECONDS)
            return time.perf_counter() - begin
        finally:
            process.kill()
            process.communicate()


if __name__ == "__main__":
    json.dump(measure(), sys.stdout, indent=2)
