"""Sordino: federated learning under differential privacy, with an ε that can be defended."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sordino.cores import be_a_good_neighbour

if TYPE_CHECKING:
    from sordino.engine.plan import Plan
    from sordino.predict.predictor import Predictor

be_a_good_neighbour()

__version__ = "0.1.0"
__all__ = ["__version__", "load", "plan", "run"]


def run(
    experiment: str | Path | Mapping[str, Any], *overrides: str, out: str | Path | None = None, resume: bool = False
) -> dict[str, Any]:
    """Run an experiment, given as a file or as a mapping of the same shape; returns the summary of its run record."""
    from sordino.engine.run import run_experiment

    checked, folder = _experiment(experiment, overrides)
    return run_experiment(
        checked, Path(out) if out is not None else Path("runs") / checked.name, resume=resume, folder=folder
    )


def plan(experiment: str | Path | Mapping[str, Any], *overrides: str) -> Plan:
    """Work out noise, ε per view, memory and time of an experiment, without touching private data."""
    from sordino.engine.plan import make_plan

    checked, folder = _experiment(experiment, overrides)
    return make_plan(checked, folder=folder)


def load(folder: str | Path, *, client: str | None = None) -> Predictor:
    """The model of a finished run, of the release of a secure one, or of an export, ready to be used.

    With `client`, the own model of that client of a personalised simulation, which hides the other clients and not this one.

    >>> predictor = sordino.load("runs/hospital")
    >>> predictor.predict(frame), predictor.predict_proba(frame), predictor.classes, predictor.model
    """
    from sordino.predict.loading import load as load_model

    return load_model(folder, client=client)


def _experiment(given: str | Path | Mapping[str, Any], overrides: tuple[str, ...]) -> tuple[Any, Path]:
    from sordino.experiment import experiment, override, read

    if isinstance(given, Mapping):
        table = {**given}
        for text in overrides:
            override(table, text)
        return experiment(table), Path.cwd()
    return read(Path(given), overrides), Path(given).resolve().parent
