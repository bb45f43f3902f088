"""What is told while a run goes on: to a function of one's own, to MLflow, or to TensorBoard."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sordino.core import SordinoError
from sordino.engine.moment import Moment


@dataclass(frozen=True)
class Round:
    """A round that is done; `accuracy` and `epsilon` where the model was evaluated after it, and None elsewhere."""

    number: int
    rounds: int
    accuracy: float | None
    epsilon: float | None


OnRound = Callable[[Round], object]
"""Called after each round; what it raises ends the run, which can be resumed."""


def watching(callbacks: list[OnRound]) -> Callable[[Moment], None]:
    """All callbacks as one onlooker of a run."""

    def watch(moment: Moment) -> None:
        if moment.stage == "training" and not moment.note:
            done = Round(moment.done, moment.total, moment.accuracy, moment.epsilon)
            for callback in callbacks:
                callback(done)

    return watch


class TensorBoard:
    """Writes accuracy and ε for TensorBoard. Needs the extra `sordino[tensorboard]`.

    >>> experiment.run(on_round=sordino.TensorBoard("logs"))
    """

    def __init__(self, folder: str | Path) -> None:
        _need("tensorboard", "tensorboard")
        self._writer: Any = importlib.import_module("torch.utils.tensorboard").SummaryWriter(str(folder))

    def __call__(self, done: Round) -> None:
        for name in ("accuracy", "epsilon"):
            if (value := getattr(done, name)) is not None:
                self._writer.add_scalar(name, value, done.number)
        self._writer.flush()


class MLflow:
    """Logs accuracy and ε to the MLflow run that is active, or to a new one. Needs the extra `sordino[mlflow]`.

    >>> experiment.run(on_round=sordino.MLflow())
    """

    def __init__(self) -> None:
        self._mlflow: Any = _need("mlflow", "mlflow")

    def __call__(self, done: Round) -> None:
        found = {"accuracy": done.accuracy, "epsilon": done.epsilon}
        told = {name: value for name, value in found.items() if value is not None}
        if told:
            self._mlflow.log_metrics(told, step=done.number)


def _need(module: str, extra: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise SordinoError(
            f"This callback needs the package {module}, which is not installed; `pip install 'sordino[{extra}]'`."
        ) from error
