"""A private training step as a multiple of a plain one: ours, vmap(grad) and every mode of Opacus, interleaved.

An allocator belongs to a process, and so do our kernels. So every setting has a process of its own, and these take turns.
"""

from __future__ import annotations

import json
import random
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack

from benchmarks.bench_models import WORKLOADS, Workload
from benchmarks.dp_sgd_contenders import OPACUS, PLAIN, WITH_NOISE, Step, contenders_for
from benchmarks.lockstep import Contestant, reply, turns
from sordino.engine.simulate.allocator import tune_allocator
from sordino.kernels.native import SWITCH

SECONDS_PER_CONTENDER, REPEATS = 3.0, (3, 60)
SECONDS_TO_SETTLE = 0.02
"""Threads of the process whose turn is over go on waiting for work, and keep a core busy, for a moment."""

ALLOCATOR_VARIABLE = "SORDINO_ALLOCATOR"
OUR_SETTING, OPACUS_SETTING, TORCH_ALONE = "", "as its users run it", "torch alone"
VARIABLES = {
    OUR_SETTING: {ALLOCATOR_VARIABLE: "tuned"},
    OPACUS_SETTING: {ALLOCATOR_VARIABLE: "system"},
    TORCH_ALONE: {ALLOCATOR_VARIABLE: "tuned", SWITCH: "off"},
}


def measure(names: tuple[str, ...] = ()) -> list[dict[str, object]]:
    """One row per model and contender: median milliseconds, and the ratio to plain SGD in the same process.

    Opacus is timed twice: as its users run it, with the system's allocator, and with the allocator that we tune. We are
    timed twice: with our compiled kernels, and with torch alone.
    """
    chosen = [workload.name for workload in WORKLOADS if not names or workload.name in names]
    return [row for name in chosen for row in _rows(name)]


def _rows(name: str) -> Iterator[dict[str, object]]:
    for setting, medians in _medians(name).items():
        for step, seconds in medians.items():
            yield {
                "model": name,
                "step": _title(setting, step),
                "ms": 1e3 * seconds,
                "ratio": seconds / medians[PLAIN],
            }


def _title(setting: str, step: str) -> str:
    if step.startswith(OPACUS):
        return step if setting == OPACUS_SETTING else f"{step} with our allocator"
    suffix = {OUR_SETTING: "", OPACUS_SETTING: " with the system's allocator", TORCH_ALONE: ", torch alone"}
    return step + suffix[setting]


def _medians(name: str) -> dict[str, dict[str, float]]:
    """Median seconds of each step in each setting; in every lap each process takes each of its steps once, in a new order."""
    with ExitStack() as leaving:
        processes: dict[str, Contestant] = {}
        for setting, variables in VARIABLES.items():
            processes[setting] = Contestant(
                ["-W", "ignore", "-m", "benchmarks.dp_sgd_step", name, setting], variables=variables
            )
            leaving.callback(processes[setting].leave)
        trial = {setting: _lap(process) for setting, process in processes.items()}
        slowest = max(seconds for steps in trial.values() for seconds in steps.values())
        least, most = REPEATS
        laps = [
            {setting: _lap(process) for setting, process in processes.items()}
            for _ in range(int(min(most, max(least, SECONDS_PER_CONTENDER / slowest))))
        ]
    return {
        setting: {step: statistics.median(lap[setting][step] for lap in laps) for step in steps}
        for setting, steps in trial.items()
    }


def _lap(process: Contestant) -> dict[str, float]:
    time.sleep(SECONDS_TO_SETTLE)
    seconds: dict[str, float] = json.loads(process.turn()["note"])
    return seconds


def serve_laps(workload: Workload, setting: str) -> None:
    """In a child: time one of each of its steps whenever the parent asks for it."""
    tune_allocator()
    steps = contenders_for(workload)
    if setting == TORCH_ALONE:
        steps = {name: step for name, step in steps.items() if name in (PLAIN, WITH_NOISE)}
    elif setting == OPACUS_SETTING:
        steps = {name: step for name, step in steps.items() if name == PLAIN or name.startswith(OPACUS)}
    for step in steps.values():
        step()
    order, shuffle = list(steps), random.Random(0).shuffle
    for _ in turns():
        shuffle(order)
        steps[order[-1]]()  # wakes the threads up, and fills the caches with another's data
        seconds = {name: _seconds(steps[name]) for name in order}
        reply(sum(seconds.values()), json.dumps(seconds))


def _seconds(step: Step) -> float:
    start = time.perf_counter()
    step()
    return time.perf_counter() - start


if __name__ == "__main__":
    if len(sys.argv) > 1:
        serve_laps(next(workload for workload in WORKLOADS if workload.name == sys.argv[1]), sys.argv[2])
    else:
        json.dump(measure(), sys.stdout, indent=2)
