"""Twelve examples of all kinds, each planned in one process and run in another: what was said, and what it took.

Long runs are cut to few rounds or rows, for the plan and the run alike. Starts are made anew in both.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.effort import quick
from benchmarks.lockstep import ROOT, child_environment

HOSPITAL = "hospital/hospital.toml"
SCRATCH = ('start="scratch"', 'tuning="full"')
TWEETS = 'data.options={text_column="text", label_column="label", limit=2000, test_limit=500}'


@dataclass(frozen=True, kw_only=True)
class Case:
    """An example, and what is changed of it."""

    name: str
    file: str
    changes: tuple[str, ...] = ()


CASES = (
    Case(name="MLP, stacked clients, start on public data", file="quickstart.toml"),
    Case(
        name="CNN, FedSGD on 60,000 rows",
        file="pretrain-dpfl/fashion-cnn-gaussian.toml",
        changes=(*SCRATCH, "rounds=1"),
    ),
    Case(name="MLP, DP-SGD in one place, DPAdapter's start", file="dpadapter/embedded.toml"),
    Case(
        name="LSTM, FedCEO on texts",
        file="fedceo/tweets-lstm-iid-z1.toml",
        changes=('data.source="imdb"', TWEETS, "data.clients=20", "method.epochs=2", "method.interval=3", "rounds=6"),
    ),
    Case(
        name="MLP, personal heads, late clients",
        file="personalised/embedded.toml",
        changes=("method.name=dp-pfeddsu", "method.layers=2", "method.share=0.1"),
    ),
    Case(
        name="EfficientNet at 96 px, reprogrammed",
        file="reprogramming/blood-iid-mr.toml",
        changes=("tuning.frame=96", "tuning.image=84", "data.options.test_limit=500", "rounds=2"),
    ),
    Case(
        name="EfficientNet at 224 px, head on cached features",
        file="reprogramming/blood-iid-bl-pf.toml",
        changes=("data.options.limit=300", "data.options.test_limit=100", "rounds=50"),
    ),
    Case(
        name="LeNet-5, FedCEO on images",
        file="fedceo/cifar10-lenet5-iid-z1.toml",
        changes=("method.epochs=4", "method.interval=2", "rounds=4"),
    ),
    Case(
        name="ResNet-20, GEP with public anchors",
        file="dpadapter/cifar10-gep-as-published.toml",
        changes=(
            *SCRATCH,
            "method.local_steps=2",
            "method.batch_size=128",
            "privacy.mechanism.anchors=200",
            "privacy.mechanism.basis=100",
            "data.options={test_limit=2000}",
            "rounds=2",
        ),
    ),
    Case(name="MLP on a table, hospitals as clients", file=HOSPITAL),
    Case(
        name="ResNet-20, tuning chosen by released statistics",
        file="pretrain-dpfl/cifar10-resnet20-gaussian.toml",
        changes=('start="scratch"', "data.options={limit=1000, test_limit=500}", "rounds=3"),
    ),
    Case(name="LeNet-5, DP-SGD in clients, charged evaluation", file="dp-sgd-in-clients.toml"),
)


@dataclass(frozen=True, kw_only=True)
class Done:
    """A command that has ended: what it printed, how long it took, and the most memory that it held."""

    printed: Any
    seconds: float
    peak_bytes: int


def measure(cases: Sequence[Case] = CASES) -> list[dict[str, object]]:
    """A row for each example: said, took, and the ratio of the two."""
    return list(rows(cases[:2] if quick() else cases))


def rows(cases: Sequence[Case]) -> Iterator[dict[str, object]]:
    with tempfile.TemporaryDirectory(prefix="sordino-bench-") as folder:
        place = Path(folder)
        for number, case in enumerate(cases):
            file = _file(case, place)
            # a start that one command made must not be found by the other
            stores = [{"SORDINO_PRETRAINED": str(place / f"starts-{what}-{number}")} for what in ("plan", "run")]
            changes = [part for change in case.changes for part in ("--set", change)]
            plan = _command(["plan", str(file), *changes, "--json"], stores[0])
            run = _command(["run", str(file), *changes, "--out", str(place / f"run-{number}"), "--json"], stores[1])
            yield _row(case, plan, run)


def _row(case: Case, plan: Done, run: Done) -> dict[str, object]:
    costs = plan.printed["costs"]
    phases = ("start", "features", "rounds", "evaluation", "end")
    return {
        "benchmark": "plans_against_runs",
        "example": case.name,
        "said s": costs["seconds"],
        "took s": run.seconds,
        "said / took, time": costs["seconds"] / run.seconds,
        "said MB": costs["memory_bytes"] / 1e6,
        "took MB": run.peak_bytes / 1e6,
        "said / took, memory": costs["memory_bytes"] / run.peak_bytes,
        "phases": ", ".join(f"{name} {costs[name]:.1f}" for name in phases if costs[name] >= 0.05),
        "plan s": plan.seconds,
    }


def _file(case: Case, place: Path) -> Path:
    """The example's file; that of the hospitals lies beside rows that are made here."""
    file = ROOT / "examples" / case.file
    if case.file != HOSPITAL:
        return file
    shutil.copytree(file.parent, place / "hospital", dirs_exist_ok=True)
    subprocess.run([sys.executable, "make_data.py"], cwd=place / "hospital", check=True, env=child_environment())
    return place / "hospital" / file.name


def _command(arguments: Sequence[str], variables: Mapping[str, str]) -> Done:
    """A command in a process of its own, from its start to its end."""
    with tempfile.TemporaryFile("w+") as printed, tempfile.TemporaryFile("w+") as errors:
        begin = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, "-m", "sordino", *arguments],
            stdout=printed,
            stderr=errors,
            text=True,
            cwd=ROOT,
            env={**child_environment(), **variables},
        )
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - begin
        process.returncode = os.waitstatus_to_exitcode(status)
        printed.seek(0)
        errors.seek(0)
        if process.returncode != 0:
            raise RuntimeError(f"sordino {' '.join(arguments)} failed: {errors.read()[-500:]}")
        unit = 1 if sys.platform == "darwin" else 1024
        return Done(printed=json.loads(printed.read()), seconds=seconds, peak_bytes=usage.ru_maxrss * unit)


if __name__ == "__main__":
    wanted = sys.argv[1:]
    for row in rows([case for case in CASES if not wanted or any(word in case.name for word in wanted)]):
        sys.stdout.write(json.dumps(row, ensure_ascii=False) + "\n")
        sys.stdout.flush()
