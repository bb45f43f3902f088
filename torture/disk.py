"""Failing disks: at every write point of three methods, by injected faults and by a real file system that fills up.

A fault must end the process with one sentence; when it is gone, the run comes to its end as if nothing had happened.
"""

from __future__ import annotations

import dataclasses
import errno
import math
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from torture.checks import price_holds, refusal, same_bits, success
from torture.experiments import SOURCES, Source
from torture.faults import Fault, read_trace
from torture.ground import Ground, Unbroken
from torture.processes import TimedOut
from torture.report import Outcome
from torture.tree import Unable

METHODS = ("dp-fedavg", "dp-sgd", "centaur")
ROUNDS = 2
PAGE_KIB = 4
ROOMY = "64m"


@dataclass(frozen=True, kw_only=True)
class Case:
    method: str
    source: Source
    unbroken: Unbroken
    fault: Fault | None = None
    kib: int = 0
    """The size of the file system, where a real one fills up."""

    def __str__(self) -> str:
        if self.fault is None:
            return f"{self.method}, {self.source} noise, on a file system of {self.kib} KiB"
        return f"{self.method}, {self.source} noise, {self.fault} ({self.unbroken.calls[self.fault.at - 1]})"


def disk(ground: Ground, outcome: Outcome) -> None:
    cases: list[Case] = []
    for method in METHODS:
        for source in SOURCES:
            try:
                table = ground.tree.experiment(method, rounds=ROUNDS, source=source)
                unbroken = ground.unbroken(table)
            except Unable as unable:
                outcome.judge(str(unable), f"{method}, {source} noise", "sordino methods")
                continue
            everything = [*_faults(ground, method, source, unbroken), *_sizes(method, source, unbroken)]
            chosen = ground.chance("disk", method, source).sample(everything, ground.scaled(len(everything)))
            cases += sorted(chosen, key=everything.index)
    if not ground.shim:
        outcome.judge("no C compiler was found, so no fault can be injected", "the shim", "gcc --version")
    if not _can_mount(ground):
        outcome.note("a tmpfs cannot be mounted here, so no real file system was filled up")
        cases = [case for case in cases if case.fault is not None]
    outcome.planned = len(cases)
    ground.each(lambda case: _torture(ground, outcome, case), cases)


def _faults(ground: Ground, method: str, source: Source, unbroken: Unbroken) -> Iterator[Case]:
    """A full disk from each call on, and an input-output error at each call alone; every second write gets half through."""
    for at, call in enumerate(unbroken.calls, start=1):
        half = call.startswith("write") and at % 2 == 0
        for number, way in ((errno.ENOSPC, "sticky"), (errno.EIO, "once")):
            fault = Fault(root=Path(), at=at, errno=number, way=way, half=half)  # type: ignore[arg-type]
            yield Case(method=method, source=source, unbroken=unbroken, fault=fault)


def _sizes(method: str, source: Source, unbroken: Unbroken) -> Iterator[Case]:
    """Page by page, up to where everything fits; two pages more, since a file is written beside the one it replaces."""
    pages = sum(math.ceil(path.stat().st_size / 4096) for path in unbroken.out.rglob("*") if path.is_file())
    for size in range(1, pages + 3):
        yield Case(method=method, source=source, unbroken=unbroken, kib=size * PAGE_KIB)


def _torture(ground: Ground, outcome: Outcome, case: Case) -> None:
    folder = ground.tree.folder("disk")
    ground.tree.write(case.unbroken.table, folder)
    place = folder / "disk"
    place.mkdir()
    try:
        if case.fault is not None:
            why = _with_fault(ground, case, folder, place)
        else:
            with _mounted(place, case.kib):
                why = _on_small_disk(ground, case, folder, place)
                if why is not None:
                    shutil.copytree(place, folder / "kept")
    except TimedOut as late:
        why = str(late)
    toml = (folder / "experiment.toml").read_text(encoding="utf-8")
    kept = folder / "kept" if case.fault is None else place
    outcome.judge(why, str(case), f"rounds until the fault and --resume after it, with:\n{toml}", kept)
    shutil.rmtree(folder)


def _with_fault(ground: Ground, case: Case, folder: Path, place: Path) -> str | None:
    """Secure cohorts differ from run to run, so a run may end before it reaches the call."""
    assert case.fault is not None
    trace = folder / "trace"
    fault = dataclasses.replace(case.fault, root=place, trace=trace)
    ended = ground.tree.run(folder / "experiment.toml", place / "run", fault=fault)
    if len(read_trace(trace)) < fault.at:
        return success(ended) or _verdict(case, place / "run")
    return refusal(ended) or _afterwards(ground, case, folder, place)


def _on_small_disk(ground: Ground, case: Case, folder: Path, place: Path) -> str | None:
    ended = ground.tree.run(folder / "experiment.toml", place / "run")
    if ended.code == 0:
        return _verdict(case, place / "run")
    if (why := refusal(ended)) is not None:
        return why
    subprocess.run(["mount", "-o", f"remount,size={ROOMY}", str(place)], check=True, capture_output=True)
    return _afterwards(ground, case, folder, place)


def _afterwards(ground: Ground, case: Case, folder: Path, place: Path) -> str | None:
    """The disk is well again: the run comes to its end, unless it had when a last call failed."""
    out = place / "run"
    if not (out / "summary.json").exists():
        ended = ground.tree.finish(folder / "experiment.toml", out)
        if (why := success(ended)) is not None:
            return f"after the fault was gone, {why}"
    return _verdict(case, out)


def _verdict(case: Case, out: Path) -> str | None:
    return same_bits(out, case.unbroken.out) if case.source == "seeded" else price_holds(out, case.unbroken.table)


@contextmanager
def _mounted(place: Path, kib: int) -> Iterator[None]:
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={kib}k", "tmpfs", str(place)], check=True, capture_output=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True, capture_output=True)


def _can_mount(ground: Ground) -> bool:
    try:
        with _mounted(ground.tree.folder("mount"), PAGE_KIB):
            return True
    except (OSError, subprocess.CalledProcessError):
        return False
