"""What a run has given, as a typed object."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sordino.core import View
from sordino.engine.record import RunRecord

if TYPE_CHECKING:
    from pandas import DataFrame

    from sordino.predict.predictor import Predictor


class Result(dict[str, Any]):
    """The summary of a run, as docs/run-record.md describes it, with the parts that people ask for by name.

    >>> result = experiment.run()
    >>> result.accuracy, result.epsilon["server"], result.to_frame(), result.load().predict(frame)
    """

    def __init__(self, summary: Mapping[str, Any], folder: Path, models: Mapping[str, object] | None = None) -> None:
        super().__init__(summary)
        self.folder = folder
        """Where the run record is."""
        self._models = dict(models or {})

    @property
    def accuracy(self) -> float | None:
        """Of the final model, as a share; None where it was not measured. Of a number, one less MAE as a share of its range."""
        found: float | None = self["accuracy"]
        return found

    @property
    def view(self) -> View:
        """The view that was promised."""
        found: View = self["view"]
        return found

    @cached_property
    def epsilon(self) -> dict[View, float]:
        """What was spent, by the worst client, in each view."""
        return {view: found["epsilon"] for view, found in self["epsilon"].items()}

    @cached_property
    def metrics(self) -> list[dict[str, Any]]:
        """The figures of every evaluation, from the first."""
        return [json.loads(line) for line in RunRecord(self.folder).metrics.read_text().splitlines()]

    def to_frame(self) -> DataFrame:
        """One row for each evaluation: round, accuracy, ε so far, and what else was measured."""
        from pandas import DataFrame

        return DataFrame([{name: value for name, value in row.items() if _is_one(value)} for row in self.metrics])

    def load(self) -> Predictor:
        """The trained model, ready to be used."""
        from sordino.outside import holding
        from sordino.predict.loading import load

        with holding(self._models):
            return load(self.folder)

    def __repr__(self) -> str:
        reached = "accuracy not measured" if self.accuracy is None else f"accuracy {self.accuracy:.1%}"
        if self.get("mae") is not None:
            reached = f"MAE {self['mae']:.4g}"
        return f"Result({self['name']!r}, {reached}, ε {self.view} = {self.epsilon[self.view]:.3g}, {self.folder})"


def _is_one(value: object) -> bool:
    return value is None or isinstance(value, bool | int | float | str)
