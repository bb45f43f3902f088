"""What every part stands on: the tree, chance, how much is asked for, and hands to do it."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from torture.checks import success
from torture.faults import Fault, read_trace
from torture.report import Outcome
from torture.toml import Table
from torture.tree import Tree, Unable

T = TypeVar("T")
HANDS = 2
"""Processes at work at a time; the parts on races take more."""


@dataclass(frozen=True, kw_only=True)
class Unbroken:
    """A run that nothing happened to: the measure of all others."""

    table: Table
    folder: Path
    """Holds `experiment.toml` and the run folder `run`."""
    seconds: float
    calls: tuple[str, ...]
    """Its writing calls in order; empty without the shim."""

    @property
    def out(self) -> Path:
        return self.folder / "run"


@dataclass(frozen=True, kw_only=True, eq=False)
class Ground:
    tree: Tree
    seed: int
    scale: float
    shim: bool
    """Whether calls can be counted and made to fail."""
    case: str = ""
    """Parts whose cases have names do those alone that contain this."""

    def chance(self, *names: object) -> random.Random:
        """Random numbers of a purpose of their own: the same for the same seed, whatever else is run."""
        return random.Random("/".join(map(str, (self.seed, *names))))

    def chosen(self, cases: Mapping[str, T]) -> dict[str, T]:
        """The cases that were asked for by name; all of them where nobody asked."""
        return {name: case for name, case in cases.items() if self.case in name}

    def scaled(self, count: int) -> int:
        """So many at full scale; always at least one."""
        return max(1, round(count * self.scale))

    def each(self, work: Callable[[T], None], items: Iterable[T]) -> None:
        """Do all of it, two at a time; after an error of the harness itself, or Ctrl-C, nothing more is begun."""
        hands = ThreadPoolExecutor(HANDS)
        try:
            for done in [hands.submit(work, item) for item in items]:
                done.result()
        finally:
            hands.shutdown(cancel_futures=True)

    def unbroken(self, table: Table) -> Unbroken:
        """Run an experiment to its end, and count its calls."""
        folder = self.tree.folder("unbroken")
        file, trace = self.tree.write(table, folder), folder.with_suffix(".trace")
        fault = Fault(root=folder, trace=trace) if self.shim else None
        ended = self.tree.run(file, folder / "run", fault=fault)
        if (why := success(ended)) is not None:
            raise Unable(f"an unbroken run of {table['method']['name']} does not finish: {why}")
        calls = tuple(read_trace(trace)) if self.shim else ()
        return Unbroken(table=table, folder=folder, seconds=ended.seconds, calls=calls)


Part = Callable[[Ground, Outcome], None]


def tolerating_unable(work: Callable[[T], None], outcome: Outcome) -> Callable[[T], None]:
    """Where the tree offers no experiment to torture, that is a failure of its own."""

    @functools.wraps(work)
    def tolerant(item: T) -> None:
        try:
            work(item)
        except Unable as unable:
            outcome.judge(str(unable), case=str(item), reproduction="sordino methods --json")

    return tolerant
