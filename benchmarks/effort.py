"""How much work a benchmark does: the full number of repeats, or a quick look."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Mapping

QUICK_VARIABLE = "SORDINO_BENCH_QUICK"


def quick() -> bool:
    return os.environ.get(QUICK_VARIABLE) == "1"


def repeats(full: int, *, when_quick: int = 2) -> int:
    return when_quick if quick() else full


def interleaved_seconds(contestants: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Median seconds of each contestant; they take turns, so that a slow spell of the machine hits all of them."""
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for work in contestants.values():
        work()
    for _ in range(rounds):
        for name, work in contestants.items():
            begin = time.perf_counter()
            work()
            seconds[name].append(time.perf_counter() - begin)
    return {name: statistics.median(times) for name, times in seconds.items()}
