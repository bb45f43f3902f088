"""The demonstration: what privacy costs, and what a public start gives back, on data that come with the package."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from sordino.engine.record import RunRecord
from sordino.engine.run import Moment, Watcher, run_experiment
from sordino.experiment import Table, experiment

_COMMON: Table = {
    "seed": 1,
    "rounds": 60,
    "data": {
        "source": "mnist5k",
        "clients": 100,
        "partition": {"name": "dirichlet", "alpha": 1.0, "min_examples": 5},
        "test": "public-split",
    },
    "model": {"name": "mlp", "hidden": [64]},
    "engine": {"evaluate_every": 5},
}
_LOCAL: Table = {"epochs": 2, "batch_size": 20, "learning_rate": 0.1}
_PRIVACY: Table = {"epsilon": 8.0, "delta": 1e-3, "clip_norm": 0.5, "expected_cohort": 40.0, "noise": "distributed"}
_DIGITS: Table = {
    "name": "standard",
    "data": {"source": "digits", "visibility": "public"},
    "epochs": 30,
    "decay": "cosine",
}

RUNS: dict[str, Table] = {
    "no privacy": {"method": {"name": "fedavg", **_LOCAL}, "privacy": {"expected_cohort": 40.0, "delta": 1e-3}},
    "private, from scratch": {"method": {"name": "dp-fedavg", **_LOCAL}, "privacy": _PRIVACY},
    "private, public start": {"method": {"name": "dp-fedavg", **_LOCAL}, "privacy": _PRIVACY, "start": _DIGITS},
}
"""Images of `digits` are public here, those of `mnist5k` private; privacy is per client, with 100 clients."""


def run_demo(out: Path, watch: Watcher) -> list[dict[str, Any]]:
    """Run the three experiments into fresh folders below `out`; returns their summaries."""
    summaries = []
    for name, table in RUNS.items():
        folder = out / name.replace(", ", "-").replace(" ", "-")
        _clear(folder)

        def watch_named(moment: Moment, name: str = name) -> None:
            stage = name if moment.stage == "training" else f"{name}, {moment.stage}"
            watch(Moment(stage, moment.done, moment.total, moment.accuracy, moment.epsilon))

        summaries.append(run_experiment(experiment({**_COMMON, **table, "name": name}), folder, watch=watch_named))
    return summaries


def _clear(folder: Path) -> None:
    """Take away an earlier demonstration, unless it is still at work."""
    if folder.exists():
        with RunRecord(folder).locked():
            shutil.rmtree(folder, ignore_errors=True)
