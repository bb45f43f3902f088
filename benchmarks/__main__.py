"""`python -m benchmarks [NAMES...] [--quick]`: measure, compare with the targets, and say which were missed."""

from __future__ import annotations

import argparse
import os
import sys

from rich.console import Console

from benchmarks.effort import QUICK_VARIABLE
from benchmarks.history import keep, slips
from benchmarks.machine import BUSY, busy_cores, machine
from benchmarks.report import Results, print_tables, write_files
from benchmarks.runner import APART, BENCHMARKS, Failed, run
from benchmarks.targets import TARGETS


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help=f"any of {', '.join([*BENCHMARKS, *APART])}; default all but {' and '.join(APART)}",
    )
    parser.add_argument("--quick", action="store_true", help="few repeats: checks the benchmarks, not the speed")
    chosen = parser.parse_args()
    if unknown := set(chosen.names) - {*BENCHMARKS, *APART}:
        parser.error(f"there is no benchmark called {', '.join(sorted(unknown))}; choose from {', '.join(BENCHMARKS)}")
    if chosen.quick:
        os.environ[QUICK_VARIABLE] = "1"
    console = Console()
    console.print(", ".join(f"{name} {value}" for name, value in machine().items()), highlight=False)
    busy = busy_cores()
    rows, failures = {}, {}
    for name in chosen.names or BENCHMARKS:
        console.print(f"measuring {name} ...", style="dim")
        try:
            rows[name] = run(name)
        except Failed as reason:
            failures[name] = str(reason)
    asked = {*rows, *failures}
    verdicts = [target.judge(rows.get(target.benchmark, [])) for target in TARGETS if target.benchmark in asked]
    results = Results(quick=chosen.quick, rows=rows, failures=failures, verdicts=verdicts)
    print_tables(results, console)
    write_files(results)
    if busy is not None and busy > BUSY:
        sys.stderr.write(
            f"Not judged: others kept {busy:.1f} cores busy when this began; stop them and measure again.\n"
        )
        return 2
    for sentence in slips(verdicts):
        sys.stderr.write(f"slipped: {sentence}\n")
    if not chosen.quick:
        keep(verdicts)
    missed = [verdict.sentence for verdict in verdicts if not verdict.met]
    for sentence in missed:
        sys.stderr.write(f"target missed: {sentence}\n")
    return 1 if missed or failures else 0


if __name__ == "__main__":
    sys.exit(main())
