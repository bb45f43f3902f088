"""`python -m benchmarks.before_after OTHER`: rounds and private steps of this tree as a multiple of another checkout's.

Processes of both trees take turns, in a new order each lap, so that a busy moment hits both alike. The other tree needs its
kernels built (`pip install --editable .` there, or the library copied beside its sources).
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
from contextlib import ExitStack
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.bench_models import WORKLOADS
from benchmarks.dp_sgd_contenders import WITH_NOISE
from benchmarks.dp_sgd_step import TORCH_ALONE
from benchmarks.lockstep import ROOT, Contestant
from benchmarks.round_jobs import ROUND_JOBS

LAPS = 15


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.before_after", description=__doc__)
    parser.add_argument("other", type=Path, metavar="OTHER", help="the root of the checkout to compare with")
    parser.add_argument("--laps", type=int, default=LAPS)
    parser.add_argument("--only", default="", metavar="WORD", help="those lines of the table that have this word")
    chosen = parser.parse_args()
    table = Table("what", "before, ms", "after, ms", "after / before", "range over laps")
    for title, arguments in _jobs(chosen.only).items():
        before, after = _take_turns(arguments, chosen.other.resolve(), chosen.laps)
        ratios = sorted(new / old for old, new in zip(before, after, strict=True))
        table.add_row(
            title,
            f"{1e3 * statistics.median(before):.2f}",
            f"{1e3 * statistics.median(after):.2f}",
            f"{statistics.median(ratios):.3f}",
            f"{ratios[0]:.2f} to {ratios[-1]:.2f}",
        )
    Console().print(table)
    return 0


def _jobs(word: str) -> dict[str, list[str]]:
    rounds = {f"round, {name}": ["-m", "benchmarks.rounds", name] for name in ROUND_JOBS}
    # The setting that times the plain and the private step and nobody else's; kernels stay on, since no variable says otherwise.
    steps = {f"step, {one.name}": ["-m", "benchmarks.dp_sgd_step", one.name, TORCH_ALONE] for one in WORKLOADS}
    return {title: arguments for title, arguments in {**rounds, **steps}.items() if word in title}


def _take_turns(arguments: list[str], other: Path, laps: int) -> tuple[list[float], list[float]]:
    """Seconds of each lap, before and after."""
    seconds: dict[Path, list[float]] = {other: [], ROOT: []}
    with ExitStack() as leaving:
        contestants = {tree: Contestant(["-W", "ignore", *arguments], tree=tree) for tree in seconds}
        for contestant in contestants.values():
            leaving.callback(contestant.leave)
            contestant.turn()
        order, shuffle = list(seconds), random.Random(0).shuffle
        for _ in range(laps):
            shuffle(order)
            for tree in order:
                seconds[tree].append(_seconds(contestants[tree].turn()))
    return seconds[other], seconds[ROOT]


def _seconds(reply: dict[str, object]) -> float:
    """A round's own time, or of a lap of several steps that of the private one."""
    note = str(reply["note"])
    return float(json.loads(note)[WITH_NOISE]) if note.startswith("{") else float(str(reply["seconds"]))


if __name__ == "__main__":
    sys.exit(main())
