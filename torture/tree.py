"""The tree under test, from outside: its command line, and what it is able to do."""

from __future__ import annotations

import functools
import json
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torture.checks import read_summary
from torture.experiments import Source, candidates
from torture.faults import Fault
from torture.processes import LONGEST_SECONDS, Child, Ended, Launcher
from torture.toml import Table, to_toml


class Unable(Exception):
    """The tree offers no experiment of the kind that is asked for; says what it answered."""


class Tree:
    """Runs, plans and shows experiments; every folder it works in is below `scratch`."""

    def __init__(self, launcher: Launcher, *, scratch: Path, root: Path) -> None:
        self.launcher, self.scratch = launcher, scratch
        self.examples = root / "examples"
        self._numbers = iter(range(10**9))
        self._one_at_a_time = threading.Lock()

    def folder(self, name: str = "case") -> Path:
        """A new empty folder, without links in its path."""
        with self._one_at_a_time:
            made = self.scratch / f"{name}-{next(self._numbers)}"
        made.mkdir(parents=True)
        return made.resolve()

    def write(self, table: Table, folder: Path) -> Path:
        file = folder / "experiment.toml"
        file.write_text(to_toml(table), encoding="utf-8")
        return file

    def start(self, file: Path, out: Path, *, resume: bool = False, **settings: Any) -> Child:
        """A run at work; `settings` are those of `Launcher.start`."""
        again = ("--resume",) if resume else ()
        return self.launcher.start("run", str(file), "--out", str(out), *again, cwd=file.parent, **settings)

    def run(
        self,
        file: Path,
        out: Path,
        *,
        resume: bool = False,
        fault: Fault | None = None,
        env: Mapping[str, str] | None = None,
        limit: float = LONGEST_SECONDS,
    ) -> Ended:
        return self.start(file, out, resume=resume, fault=fault, env=env).wait(limit)

    def finish(self, file: Path, out: Path, **settings: Any) -> Ended:
        """Bring a run to its end: with --resume, or anew where nothing was begun and resuming is therefore refused."""
        ended = self.run(file, out, resume=True, **settings)
        if ended.code == 2 and not (out / "experiment.json").exists():
            return self.run(file, out, **settings)
        return ended

    def plan(self, file: Path, **settings: Any) -> Ended:
        return self.launcher.run("plan", str(file), cwd=file.parent, **settings)

    def verify(self, out: Path) -> Ended:
        return self.launcher.run("show", str(out), "--verify", cwd=out.parent)

    @functools.cached_property
    def axes(self) -> dict[str, list[str]]:
        """Every axis, and the names of its members."""
        ended = self.launcher.run("methods", "--json", cwd=self.scratch)
        if ended.code:
            raise Unable(f"`sordino methods --json` ended with {ended.code}: {ended.err}")
        return {axis: list(members) for axis, members in json.loads(ended.out).items()}

    @property
    def methods(self) -> list[str]:
        return self.axes["method"]

    @functools.cache  # noqa: B019
    def experiment(self, method: str, *, rounds: int, source: Source) -> Table:
        """The first small experiment with this method that the tree plans and, with one round, runs."""
        answer = ""
        for table in candidates(method, rounds=rounds, source=source):
            folder = self.folder("probe")
            planned = self.plan(self.write(table, folder))
            if planned.code == 0:
                once = self.run(self.write({**table, "rounds": 1}, folder), folder / "run")
                if once.code == 0 and _keeps_its_promise(table, folder / "run"):
                    return table
                answer = once.err
            else:
                answer = answer or planned.err
        raise Unable(f"no small experiment with method {method!r} and {source} noise is accepted: {answer.strip()}")


def _keeps_its_promise(table: Table, out: Path) -> bool:
    """An ε can be asked for only where the method protects anything at all."""
    promised = table["privacy"].get("epsilon")
    return promised is None or float(read_summary(out)["epsilon"]["public"]["epsilon"]) <= promised


def source_folder(tree: Path) -> Path:
    """Where a checkout keeps its package."""
    inside = tree / "src"
    return inside if (inside / "sordino").is_dir() else tree


def environment(scratch: Path) -> dict[str, str]:
    """Stores and data of the suite's own, so that nothing on this machine is read or changed."""
    places = {
        name: scratch / folder
        for name, folder in (
            ("SORDINO_DATA", "data"),
            ("SORDINO_PRETRAINED", "pretrained"),
            ("SORDINO_FEATURES", "features"),
            ("HOME", "home"),
        )
    }
    for place in places.values():
        os.makedirs(place, exist_ok=True)
    return {name: str(place) for name, place in places.items()}
