"""A run beside other work: how much longer it takes while two threads spin, and what two runs at once cost.

The whole command is timed, start-up included. With both cores taken by others, a fair share of them would make it twice as long.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.command import seconds_of, start, write_experiment
from benchmarks.effort import repeats
from sordino.kernels.native import SWITCH

SPIN = "while True: pass"
ROUNDS = 30


def measure() -> list[dict[str, object]]:
    """Median seconds and ratios, with kernels and with torch alone."""
    return [row for kernels in ("on", "off") for row in _rows(kernels)]


def _rows(kernels: str) -> Iterator[dict[str, object]]:
    os.environ[SWITCH] = kernels
    alone, beside, both = [], [], []
    for _ in range(repeats(3, when_quick=1)):
        alone.append(_run())
        with _spinning(os.cpu_count() or 1):
            beside.append(_run())
        both.append(_two_at_once())
    usual = statistics.median(alone)
    facts = {"benchmark": "neighbours", "kernels": kernels}
    yield {**facts, "what": "alone", "seconds": usual, "ratio": 1.0}
    seconds = statistics.median(beside)
    yield {**facts, "what": "beside two spinning threads", "seconds": seconds, "ratio": seconds / usual}
    seconds = statistics.median(both)
    yield {**facts, "what": "two at once / one after the other", "seconds": seconds, "ratio": seconds / (2 * usual)}


def _run() -> float:
    with tempfile.TemporaryDirectory(prefix="sordino-bench-") as folder:
        return seconds_of(_arguments(Path(folder)))


def _two_at_once() -> float:
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        begin = time.perf_counter()
        processes = [start(_arguments(Path(folder))) for folder in (first, second)]
        for process in processes:
            process.communicate()
            if process.returncode != 0:
                raise RuntimeError("one of two runs at once failed")
        return time.perf_counter() - begin


def _arguments(folder: Path) -> list[str]:
    settings = ["--set", f"rounds={ROUNDS}", "--out", str(folder / "run"), "--json"]
    return ["run", str(write_experiment(folder)), *settings]


@contextmanager
def _spinning(count: int) -> Iterator[None]:
    """So many threads of others that never rest."""
    spinners = [subprocess.Popen([sys.executable, "-c", SPIN]) for _ in range(count)]
    try:
        yield
    finally:
        for spinner in spinners:
            spinner.kill()
            spinner.wait()


if __name__ == "__main__":
    json.dump(measure(), sys.stdout, indent=2)
