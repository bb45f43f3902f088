"""Sordino: federated learning under differential privacy, with an ε that can be defended.

An experiment is a file or an object, with the same fields:

    import sordino

    sordino.plan("experiment.toml")                  # what it will promise; trains nothing
    result = sordino.run("experiment.toml")          # runs/experiment holds the record
    sordino.load("runs/experiment").predict(frame)   # the trained model in use

    experiment = sordino.Experiment(
        rounds=60,
        data=sordino.Data(frame, label="outcome", client="hospital", test=other_frame),
        privacy=sordino.Privacy(epsilon=3.0, delta=1e-5, view="server"),
    )
    result = experiment.run(on_round=print)
    result.accuracy, result.epsilon["server"], result.to_frame(), result.load()

A training loop of your own becomes private by

    private = sordino.make_private(model, optimizer, loader, epsilon=3.0, epochs=10)
    for inputs, targets in private:
        private.step(inputs, targets)

Parts for programs of your own: `Accountant` and `noise_multiplier` (ε of releases, noise for an ε), `ClippedGradients` (per-example clipped
sums in one backward pass), `poisson_batches`, `add_noise`, `partition` (rows to clients). Parts to add to sordino are written with
`sordino.extend`.
Whatever is wrong with settings or data is a `SordinoError` of one sentence. `sordino --help` has the commands.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sordino.cores import be_a_good_neighbour

if TYPE_CHECKING:
    from sordino.core import SordinoError as SordinoError
    from sordino.engine.plan import Plan as Plan
    from sordino.gradients import ClippedGradients as ClippedGradients
    from sordino.library.accountant import Accountant as Accountant
    from sordino.library.accountant import noise_multiplier as noise_multiplier
    from sordino.library.callbacks import MLflow as MLflow
    from sordino.library.callbacks import Round as Round
    from sordino.library.callbacks import TensorBoard as TensorBoard
    from sordino.library.data import Data as Data
    from sordino.library.experiment import Engine as Engine
    from sordino.library.experiment import Experiment as Experiment
    from sordino.library.experiment import Privacy as Privacy
    from sordino.library.pieces import add_noise as add_noise
    from sordino.library.pieces import partition as partition
    from sordino.library.pieces import poisson_batches as poisson_batches
    from sordino.library.private_loop import PrivateLoop as PrivateLoop
    from sordino.library.private_loop import make_private as make_private
    from sordino.library.result import Result as Result
    from sordino.predict.predictor import Predictor as Predictor

be_a_good_neighbour()

__version__ = "0.1.0"

_PLACES = {
    "Accountant": "library.accountant",
    "ClippedGradients": "gradients",
    "Data": "library.data",
    "Engine": "library.experiment",
    "Experiment": "library.experiment",
    "MLflow": "library.callbacks",
    "Plan": "engine.plan",
    "Predictor": "predict.predictor",
    "Privacy": "library.experiment",
    "PrivateLoop": "library.private_loop",
    "Result": "library.result",
    "Round": "library.callbacks",
    "SordinoError": "core",
    "TensorBoard": "library.callbacks",
    "add_noise": "library.pieces",
    "make_private": "library.private_loop",
    "noise_multiplier": "library.accountant",
    "partition": "library.pieces",
    "poisson_batches": "library.pieces",
}
"""Where names lie that are imported when they are first asked for: torch takes longer to import than most commands run."""

__all__ = ["__version__", "load", "plan", "run", *_PLACES]  # noqa: PLE0604 (names are words)


def run(
    experiment: str | Path | Mapping[str, Any], *overrides: str, out: str | Path | None = None, resume: bool = False
) -> Result:
    """Run an experiment, given as a file or as a mapping of the same shape; returns the summary of its run record.

    >>> sordino.run("experiment.toml", "privacy.epsilon=2", out="runs/two").accuracy
    """
    from sordino.engine.run import run_experiment
    from sordino.library.result import Result

    checked, folder = _experiment(experiment, overrides)
    place = Path(out) if out is not None else Path("runs") / checked.name
    return Result(run_experiment(checked, place, resume=resume, folder=folder), place)


def plan(experiment: str | Path | Mapping[str, Any], *overrides: str, measure: bool = False) -> Plan:
    """Work out noise and ε per view of an experiment of public facts; bad rows are refused as a run refuses them.

    With `measure`, a trial of a few seconds on made-up rows tells time and memory on this machine, as `costs`.

    >>> sordino.plan("experiment.toml").epsilon["server"].epsilon
    """
    from sordino.engine.plan import make_plan

    checked, folder = _experiment(experiment, overrides)
    return make_plan(checked, folder=folder, measure=measure)


def load(folder: str | Path, *, client: str | None = None, model: object = None) -> Predictor:
    """The model of a finished run, of the release of a secure one, or of an export, ready to be used.

    With `client`, the own model of that client of a personalised simulation, which hides the other clients and not this one.
    `model` is the torch.nn.Module, or the function that makes it, where the run was given one from Python.

    >>> predictor = sordino.load("runs/hospital")
    >>> predictor.predict(frame), predictor.predict_proba(frame), predictor.classes, predictor.model
    """
    from sordino.predict.loading import load as load_model

    return load_model(folder, client=client, model=model)


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'sordino' has no attribute {name!r}")
    return getattr(importlib.import_module(f"sordino.{_PLACES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)


def _experiment(given: str | Path | Mapping[str, Any], overrides: tuple[str, ...]) -> tuple[Any, Path]:
    from sordino.experiment import experiment, override, read

    if isinstance(given, Mapping):
        table = {**given}
        for text in overrides:
            override(table, text)
        return experiment(table), Path.cwd()
    return read(Path(given), overrides), Path(given).resolve().parent
