"""Failures with their reproductions, what each part came to, and the table at the end."""

from __future__ import annotations

import itertools
import re
import shutil
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table as Grid

MOST_FOLDERS, MOST_KINDS = 30, 12


@dataclass(frozen=True, kw_only=True)
class Failure:
    """What was done, what should have been, and how to see it again."""

    case: str
    why: str
    reproduction: str
    folder: Path | None = None
    """A run folder as the failure left it."""

    @property
    def kind(self) -> str:
        """The complaint without the numbers and names of this one case."""
        return kind_of(self.why)


def kind_of(why: str) -> str:
    return re.sub(r"'[^']*'|[\w./-]*/[\w./-]+|[-\d.e+]*\d", "…", why)


@dataclass
class Outcome:
    """What a part came to. Threads may add to it."""

    part: str
    out: Path
    planned: int = 0
    cases: int = 0
    notes: list[str] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    begin: float = field(default_factory=time.monotonic)
    seconds: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _said: float = 0.0

    def passed(self) -> None:
        with self._lock:
            self.cases += 1
            self._progress()

    def failed(self, failure: Failure) -> None:
        with self._lock:
            self.cases += 1
            self.failures.append(failure)
            self._write(failure, len(self.failures))
            self._progress()

    def judge(self, why: str | None, case: str, reproduction: str, folder: Path | None = None) -> None:
        """One case, with the complaint that was found, if any."""
        if why is None:
            self.passed()
        else:
            self.failed(Failure(case=case, why=why, reproduction=reproduction, folder=folder))

    def note(self, sentence: str) -> None:
        with self._lock:
            self.notes.append(sentence)

    def close(self) -> None:
        self.seconds = time.monotonic() - self.begin
        self._progress(always=True)

    def _progress(self, always: bool = False) -> None:
        now = time.monotonic()
        if always or now - self._said > (0.5 if sys.stderr.isatty() else 10):
            self._said = now
            end = "\r" if sys.stderr.isatty() and not always else "\n"
            planned = f" of {self.planned}" if self.planned else ""
            sys.stderr.write(
                f"{self.part}: {self.cases}{planned} cases, {len(self.failures)} failed, {now - self.begin:.0f} s{end}"
            )
            sys.stderr.flush()

    def _write(self, failure: Failure, number: int) -> None:
        self.out.mkdir(parents=True, exist_ok=True)
        place = self.out / f"{self.part}-{number:04d}"
        place.with_suffix(".txt").write_text(
            f"{self.part}: {failure.case}\n{failure.why}\n\n{failure.reproduction}\n", encoding="utf-8"
        )
        if failure.folder is not None and failure.folder.is_dir() and number <= MOST_FOLDERS:
            shutil.copytree(failure.folder, place, dirs_exist_ok=True, ignore_dangling_symlinks=True)


def print_table(outcomes: list[Outcome], console: Console) -> None:
    grid = Grid("part", "cases", "failures", "seconds")
    for outcome in outcomes:
        grid.add_row(outcome.part, str(outcome.cases), str(len(outcome.failures)), f"{outcome.seconds:.0f}")
    for outcome in outcomes:
        for note in outcome.notes:
            console.print(f"{outcome.part}: {note}", style="dim", markup=False, highlight=False, soft_wrap=True)
        print_kinds(outcome, console)
    console.print(grid)


def print_kinds(outcome: Outcome, console: Console) -> None:
    """Each kind of failure once, the commonest first, with the shortest reproduction."""
    kinds = Counter(failure.kind for failure in outcome.failures)
    for kind, count in itertools.islice(kinds.most_common(), MOST_KINDS):
        alike = [failure for failure in outcome.failures if failure.kind == kind]
        first = min(alike, key=lambda failure: len(failure.reproduction))
        console.print(
            f"{outcome.part}, {count} times: {first.why}", style="red", markup=False, highlight=False, soft_wrap=True
        )
        console.print(f"  {first.case}", markup=False, highlight=False, soft_wrap=True)
        for line in first.reproduction.splitlines()[:40]:
            console.print(f"    {line[:160]}", style="dim", markup=False, highlight=False, soft_wrap=True)
    if len(kinds) > MOST_KINDS:
        console.print(f"{outcome.part}: {len(kinds) - MOST_KINDS} more kinds of failure are in the folder.")
