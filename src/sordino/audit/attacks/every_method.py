"""Membership inference on every method: private runs, which must stay under their ε's bound, beside one without privacy that overfits.

The rows can only be learnt by heart: labels follow one number of a thousand, and a third of them is flipped.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.audit.attacks.attacking import attack_target
from sordino.audit.target import Target
from sordino.experiment import Experiment, experiment
from sordino.methods import METHODS

ROWS, OTHERS, NUMBERS, FLIPPED = 400, 4000, 1000, 0.33
CLIENTS, ROUNDS, EPSILON, DELTA = 10, 20, 2.0, 1e-3
SETTINGS: dict[str, dict[str, Any]] = {
    "fedavg": {"epochs": 20, "batch_size": 16, "learning_rate": 0.2},
    "bl-pf-as-published": {},
    "dp-sgd": {"batch_size": "full", "learning_rate": 0.5},
    "ppsgd-steps": {"batch_size": "full", "learning_rate": 0.5},
    "centaur-steps": {"batch_size": "full", "learning_rate": 0.5},
    "dp-pfeddsu": {"layers": 1, "share": 0.5, "mask": "global", "head_epochs": 1},
    "fedceo": {"epochs": 20, "batch_size": 16, "learning_rate": 0.2},
}
DEFAULTS = {"epochs": 20, "batch_size": 16, "learning_rate": 0.2}
"""As many epochs as the run that overfits; methods with local work of their own kind have settings of their own."""


def rows_to_learn_by_heart(path: Path) -> None:
    """Write them to an archive: a few to train on, and many others."""
    draw = np.random.default_rng(1)

    def rows(count: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        numbers = draw.standard_normal((count, NUMBERS)).astype(np.float32)
        labels = (numbers[:, 0] > 0) ^ (draw.random(count) < FLIPPED)
        return numbers, labels.astype(np.int64)

    (x_train, y_train), (x_test, y_test) = rows(ROWS), rows(OTHERS)
    np.savez(path, x_train=x_train, y_train=y_train, x_test=x_test, y_test=y_test)


def experiments(data: Path) -> Iterator[Experiment]:
    """One for each method; `fedceo` uses uploads one by one, so its noise is drawn by clients."""
    for member in METHODS:
        yield experiment(
            {
                "name": member.name,
                "seed": 1,
                "rounds": ROUNDS,
                "data": {"source": str(data), "clients": CLIENTS},
                "model": {"name": "mlp", "hidden": [128]},
                "method": {"name": member.name, **SETTINGS.get(member.name, DEFAULTS)},
                "privacy": {
                    "epsilon": EPSILON,
                    "delta": DELTA,
                    "sampler": "everyone",
                    "noise": "local" if member.name == "fedceo" else "central",
                },
            }
        )


def attack_every_method(
    *, shadows: int, epochs: int, progress: Callable[[str, int, int], None] = lambda stage, done, total: None
) -> list[dict[str, Any]]:
    """Train each, and attack what it publishes."""
    found = []
    with tempfile.TemporaryDirectory(prefix="sordino-attack-") as scratch:
        data = Path(scratch) / "by-heart.npz"
        rows_to_learn_by_heart(data)
        every = list(experiments(data))
        for number, one in enumerate(every, 1):
            target = Target(experiment=one, folder=Path(scratch))
            found.append(attack_target(target, Path(scratch) / one.name, attacks=(), shadows=shadows, epochs=epochs))
            progress("methods", number, len(every))
    return found
