"""The study behind dp-sgd's own batches and learning rate: noisy full-batch steps on public and made-up tables.

`python -m benchmarks.studies.defaults` prints the tables of docs/studies/defaults.md (about four minutes on one core). Five clients
share the rows, each with noise of its own. None of the data sets is used elsewhere in the documentation.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from sklearn.datasets import load_breast_cancer, load_digits, make_classification

from sordino.gradients import ClippedGradients
from sordino.methods.sensible import REACH, STRIDE, WOBBLE
from sordino.models import build
from sordino.privacy.calibration import calibrate
from sordino.privacy.event_kinds import GaussianDpEvent

CLIENTS, DELTA, SEEDS = 5, 1e-5, 2
REACHES = (7.5, 15, 30, 60, 120, 240, 480)
MODELS = {"mlp": {"hidden": (32,)}, "logistic": {}}

Rows = tuple[np.ndarray, np.ndarray, int]


def tables() -> dict[str, Rows]:
    """Inputs scaled to -1 to 1, labels, and how many classes there are."""
    digits, cancer = load_digits(), load_breast_cancer()
    found: dict[str, Rows] = {
        "digits": (_scaled(digits.data), digits.target, 10),
        "cancer": (_scaled(cancer.data), cancer.target, 2),
        "skewed": _skewed(),
    }
    for name, rows, columns, separation in (("small", 2600, 10, 0.7), ("middle", 10000, 15, 0.5)):
        inputs, labels = make_classification(
            rows,
            columns,
            n_informative=columns // 2,
            n_classes=3,
            class_sep=separation,
            flip_y=0.1,
            random_state=5,
        )
        found[name] = (_scaled(inputs), labels, 3)
    return found


def _scaled(inputs: np.ndarray) -> np.ndarray:
    low, high = inputs.min(0), inputs.max(0)
    return (2 * (inputs - low) / np.where(high > low, high - low, 1) - 1).astype(np.float32)


def _skewed() -> Rows:
    """Columns that fill little of their bounds, words, and a label in an order: what tables of people are like."""
    rng = np.random.default_rng(11)
    long_tailed, plain, words = rng.lognormal(0, 0.5, (8000, 3)), rng.normal(size=(8000, 2)), rng.integers(4, size=8000)
    risk = 1.2 * np.log(long_tailed[:, 0]) + 0.8 * plain[:, 0] - 0.6 * plain[:, 1] + 0.5 * (words == 2)
    inputs = np.hstack([np.clip(long_tailed / 5 - 1, -1, 1), np.clip(plain / 4, -1, 1), np.eye(4)[words]])
    return inputs.astype(np.float32), np.digitize(risk + rng.logistic(0, 0.5, 8000), [-0.5, 0.8]), 3


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One way to take the steps; `reach` is how far all of them go together, in clip norms."""

    reach: float
    epsilon: float = 3.0
    rounds: int = 60
    clip: float = 1.0
    falling: bool = False
    ruled: bool = True
    """Whether reach is cut where one step or the noise would be too large."""


def accuracy(rows: Rows, model: str, trial: Trial, noise_multiplier: float, seed: int) -> float:
    """On a fifth of the rows, after noisy steps on the others."""
    order = torch.from_numpy(np.random.default_rng(seed).permutation(len(rows[0])))
    inputs, labels = torch.from_numpy(rows[0])[order], torch.from_numpy(rows[1]).long()[order]
    held_out = len(order) // 5
    train, targets = inputs[held_out:], labels[held_out:]
    net = build(model, shape=tuple(inputs.shape[1:]), classes=rows[2], seed=seed, **MODELS[model])
    parameters = list(net.parameters())
    gradients = ClippedGradients(net, trainable=[name for name, _ in net.named_parameters()], microbatch=4096)
    size, noise = sum(one.numel() for one in parameters), noise_multiplier * math.sqrt(CLIENTS) / len(train)
    reach = trial.reach
    if trial.ruled:
        reach = min(reach, STRIDE * trial.rounds, WOBBLE * math.sqrt(trial.rounds / size) / noise)
    generator = torch.Generator().manual_seed(seed + 99)
    for number in range(trial.rounds):
        total = gradients.sum(train, targets, clip_norm=trial.clip).total / len(train)
        total += trial.clip * noise * torch.randn(size, generator=generator)
        pace = reach / trial.rounds / trial.clip * (2 - (2 * number + 1) / trial.rounds if trial.falling else 1)
        with torch.no_grad():
            for one, step in zip(parameters, total.split([one.numel() for one in parameters]), strict=True):
                one.sub_(pace * step.view_as(one))
    with torch.no_grad():
        return float((net(inputs[:held_out]).argmax(1) == labels[:held_out]).float().mean())


def compare(found: dict[str, Rows], trials: Sequence[Trial], title: str) -> None:
    """A line for each table and model, a column for each trial, and the mean."""
    print(f"\n{title}")
    means = []
    for name, rows in found.items():
        for model in MODELS:
            line = [
                np.mean([accuracy(rows, model, trial, _noise(trial), seed) for seed in range(SEEDS)])
                for trial in trials
            ]
            print(f"| {name} | {model} | " + " | ".join(f"{100 * one:.1f}" for one in line) + " |", flush=True)
            means.append(line)
    print("| mean | | " + " | ".join(f"{100 * one:.1f}" for one in np.mean(means, axis=0)) + " |")


def _noise(trial: Trial) -> float:
    return calibrate(
        lambda multiplier: {GaussianDpEvent(multiplier): trial.rounds},
        epsilon=trial.epsilon,
        delta=DELTA,
        neighbours="zero-out",
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", nargs="*", default=None, help="only these")
    chosen = parser.parse_args().tables
    found = {name: rows for name, rows in tables().items() if chosen is None or name in chosen}
    for epsilon in (1.0, 3.0, 8.0):
        trials = [Trial(reach=reach, epsilon=epsilon, ruled=False) for reach in REACHES]
        compare(found, trials, f"ε = {epsilon:g}, reach {REACHES}")
    for rounds in (20, 60, 200):
        shapes = [
            Trial(reach=reach, rounds=rounds, falling=falling) for falling in (False, True) for reach in (120, REACH)
        ]
        compare(found, shapes, f"{rounds} rounds, reach 120 and {REACH:g}, steady; the same, falling")
    compare(
        found, [Trial(reach=REACH, falling=True, clip=clip) for clip in (0.1, 0.3, 1.0, 3.0)], "clip 0.1, 0.3, 1, 3"
    )


if __name__ == "__main__":
    main()
