"""Tampering: run folders that somebody edited, on a half-finished and on a finished run. All of it must be noticed.

A half-finished run is resumed, and must refuse to; a finished one is shown with --verify, which must refuse to vouch for it.
Copies that nobody touched are there as well: those must resume, and verify.
"""

from __future__ import annotations

import copy
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from torture.checks import price_holds, refusal, success
from torture.edits import HALF_EDITS, WHOLE_EDITS, Edit
from torture.experiments import Source
from torture.ground import Ground, tolerating_unable
from torture.processes import LONGEST_SECONDS, TimedOut
from torture.report import Outcome
from torture.toml import Table
from torture.tree import Unable

VICTIMS: tuple[tuple[str, Source], ...] = (
    ("dp-fedavg", "seeded"),
    ("dp-fedavg", "secure"),
    ("dp-sgd", "seeded"),
    ("dp-sgd", "secure"),
    ("centaur", "secure"),
)
ROUNDS, EARLY_ROUNDS, HALF_ROUNDS = 40, 3, 12
DATA = "mine.npz"


@dataclass(frozen=True, kw_only=True)
class Victim:
    """One experiment in three states, each a folder with an experiment file, its data and a run folder."""

    name: str
    table: Table
    early: Path
    half: Path
    whole: Path


@dataclass(frozen=True, kw_only=True)
class Case:
    """An edit of one state; without one, the control: nothing was touched."""

    victim: Victim
    finished: bool
    name: str
    edit: Edit | None = None
    other_data: bool = False

    def __str__(self) -> str:
        state = "finished" if self.finished else "half-finished"
        return f"{self.victim.name}, {state}: {self.name}"


def tampering(ground: Ground, outcome: Outcome) -> None:
    victims: dict[tuple[str, Source], Victim] = {}

    def prepare(chosen: tuple[str, Source]) -> None:
        victims[chosen] = _prepare(ground, *chosen)

    ground.each(tolerating_unable(prepare, outcome), VICTIMS[: max(2, ground.scaled(len(VICTIMS)))])
    cases = [case for chosen in VICTIMS if chosen in victims for case in _cases(victims[chosen])]
    controls = [case for case in cases if case.edit is None and not case.other_data]
    edited = [case for case in cases if case not in controls]
    taken = controls + ground.chance("tampering").sample(edited, ground.scaled(len(edited)))
    outcome.planned = len(taken)
    ground.each(lambda case: _examine(ground, outcome, case), sorted(taken, key=cases.index))


def _cases(victim: Victim) -> Iterator[Case]:
    for finished, edits in ((False, HALF_EDITS), (True, WHOLE_EDITS)):
        yield Case(victim=victim, finished=finished, name="nothing was touched")
        for name, edit in edits.items():
            yield Case(victim=victim, finished=finished, name=name, edit=edit)
    yield Case(victim=victim, finished=False, name="the data file has other content now", other_data=True)


def _examine(ground: Ground, outcome: Outcome, case: Case) -> None:
    folder = ground.tree.folder("tampered")
    shutil.copytree(case.victim.whole if case.finished else case.victim.half, folder, dirs_exist_ok=True)
    if case.edit is not None:
        case.edit(folder / "run", case.victim.early / "run")
    if case.other_data:
        np.savez(folder / DATA, **_images(seed=1))
    try:
        why = _answer(ground, case, folder)
    except TimedOut as late:
        why = str(late)
    command = "sordino show run --verify" if case.finished else "sordino run experiment.toml --out run --resume"
    toml = (folder / "experiment.toml").read_text(encoding="utf-8")
    outcome.judge(why, str(case), f"{command}   (in the folder beside this file)\n\n{toml}", folder)


def _answer(ground: Ground, case: Case, folder: Path) -> str | None:
    file, out = folder / "experiment.toml", folder / "run"
    if case.edit is not None or case.other_data:
        ended = ground.tree.verify(out) if case.finished else ground.tree.run(file, out, resume=True)
        return refusal(ended)
    if not case.finished:
        return success(ground.tree.run(file, out, resume=True)) or price_holds(out, case.victim.table)
    ended = ground.tree.verify(out)
    said = ended.out.lower()
    if (why := success(ended)) is not None:
        return why
    if "ledger" not in said or ("ε" not in said and "epsilon" not in said):
        return "--verify does not say that the ε priced from the ledger alone is the summary's"
    return price_holds(out, case.victim.table)


def _prepare(ground: Ground, method: str, source: Source) -> Victim:
    table = copy.deepcopy(ground.tree.experiment(method, rounds=ROUNDS, source=source))
    table["data"]["source"] = f"./{DATA}"
    early, half, whole = (ground.tree.folder(name) for name in ("early", "half", "whole"))
    _lay_out(ground, table, early)
    _stop_after(ground, early, EARLY_ROUNDS)
    shutil.copytree(early, half, dirs_exist_ok=True)
    _stop_after(ground, half, HALF_ROUNDS)
    shutil.copytree(half, whole, dirs_exist_ok=True)
    if (why := success(ground.tree.finish(whole / "experiment.toml", whole / "run"))) is not None:
        shutil.rmtree(whole / "run")
        again = ground.tree.run(whole / "experiment.toml", whole / "run")
        if (why := success(again)) is not None:
            raise Unable(f"a run to tamper with does not finish: {why}")
    return Victim(name=f"{method}, {source} noise", table=table, early=early, half=half, whole=whole)


def _lay_out(ground: Ground, table: Table, folder: Path) -> None:
    ground.tree.write(table, folder)
    np.savez(folder / DATA, **_images(seed=0))


def _images(seed: int) -> dict[str, Any]:
    """Something that can be learnt; another seed gives other images of the same labels."""
    chance = np.random.default_rng(seed)
    labels = np.arange(600) % 10
    images = chance.integers(0, 120, (600, 8, 8)) + 12 * labels[:, None, None]
    return {"x_train": images.astype(np.uint8), "y_train": labels.astype(np.int64)}


def _stop_after(ground: Ground, folder: Path, rounds: int) -> None:
    """Kill a run once it has finished so many rounds."""
    metrics = folder / "run" / "metrics.jsonl"
    child = ground.tree.start(folder / "experiment.toml", folder / "run", resume=metrics.exists())
    until = time.monotonic() + LONGEST_SECONDS
    while not (metrics.exists() and metrics.read_bytes().count(b"\n") >= rounds):
        if time.monotonic() > until or (folder / "run" / "summary.json").exists():
            break
        time.sleep(0.001)
    child.kill()
    ended = child.wait()
    if not ended.killed:
        raise Unable(f"a run of {ROUNDS} rounds could not be stopped after {rounds}: {ended.err.strip()}")
