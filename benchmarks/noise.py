"""The time of noise, as a ratio to torch.randn of the same size, in one process and interleaved."""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable

import torch

from benchmarks.effort import repeats
from sordino.engine.simulate.allocator import tune_allocator
from sordino.privacy.noise import SecureNoise, SeededNoise

SIZES = (10_000, 100_000, 1_000_000, 5_000_000)
REPEATS = 31
VALUES_PER_TURN = 2_000_000
"""Small draws are timed many at a time, since some of them pay for the next ones."""


def measure() -> list[dict[str, object]]:
    """One row per size: median milliseconds of torch.randn and the ratio of each of our draws to it."""
    tune_allocator()
    return [_row(size) for size in SIZES]


def _row(size: int) -> dict[str, object]:
    secure, seeded = SecureNoise(), SeededNoise(1)
    draws: dict[str, Callable[[], object]] = {
        "randn": lambda: torch.randn(size),
        "secure gaussian": lambda: secure.gaussian(size, std=1.0, stream=0),
        "seeded gaussian": lambda: seeded.gaussian(size, std=1.0, stream=0),
        "seeded laplace": lambda: seeded.laplace(size, scale=1.0, stream=0),
    }
    seconds: dict[str, list[float]] = {name: [] for name in draws}
    times = max(1, VALUES_PER_TURN // size)
    for _ in range(repeats(REPEATS, when_quick=5)):
        for name, draw in draws.items():
            start = time.perf_counter()
            for _ in range(times):
                draw()
            seconds[name].append((time.perf_counter() - start) / times)
    medians = {name: statistics.median(times) for name, times in seconds.items()}
    row: dict[str, object] = {"benchmark": "noise", "size": size, "threads": torch.get_num_threads()}
    row["randn_ms"] = medians["randn"] * 1e3
    return row | {f"{name} / randn": medians[name] / medians["randn"] for name in draws if name != "randn"}


if __name__ == "__main__":
    json.dump(measure(), sys.stdout, indent=2)
