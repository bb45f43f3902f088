"""A trained model with the preparation of its inputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from sordino.core import SordinoError
from sordino.data.examples import Examples
from sordino.data.preparation import GIVEN, Preparation
from sordino.data.table import Table
from sordino.data.target import Target, predicted_places
from sordino.engine.evaluate import logits
from sordino.models import Net
from sordino.predict.files import read_inputs

if TYPE_CHECKING:
    from pandas import DataFrame

CPU = torch.device("cpu")


@dataclass(frozen=True, kw_only=True, eq=False)
class Predictor:
    """A model that can be used. `sordino.load(DIR)` makes one.

    >>> predictor = sordino.load("runs/hospital")
    >>> predictor.predict(frame)            # the name of the likeliest class of each row, or the number where one was learnt
    >>> predictor.predict_proba(frame)      # one column per entry of predictor.classes
    >>> predictor.model                     # a plain torch.nn.Module from prepared inputs to logits

    Data are a pandas or polars frame (or a mapping of columns), an array or tensor, a list of texts, or the path of a file; they
    are prepared as the training rows were. Predictions are post-processing of a released model: they cost no privacy of
    those it was trained on, and nothing protects the rows that are predicted.
    """

    name: str
    model: Net
    preparation: Preparation
    note: str = ""
    """What whoever uses the model must know; mostly nothing."""

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes, in the order of `predict_proba`'s columns; the name of the number where one was learnt."""
        return self.preparation.classes

    @property
    def target(self) -> Target | None:
        """What is predicted, with its bounds, where it is a number and no class."""
        return self.preparation.number

    def predict(self, data: Any) -> NDArray[np.str_] | NDArray[np.float64]:
        """The name of the likeliest class of each row; where a number was learnt, that, in its own unit and between its bounds."""
        if self.target is not None:
            places = predicted_places(logits(self.model, self.prepare(data), CPU))
            return self.target.in_unit(places.numpy())
        names: NDArray[np.str_] = np.array(self.classes)[self.predict_proba(data).argmax(1)]
        return names

    def predict_proba(self, data: Any) -> NDArray[np.float64]:
        """The probability of each class (columns) for each row; every row sums to one."""
        if self.target is not None:
            raise SordinoError(
                f"This model predicts a number, {self.classes[0]}, and has no probabilities of classes; call predict."
            )
        found: NDArray[np.float64] = logits(self.model, self.prepare(data), CPU).double().softmax(1).numpy()
        return found

    def prepare(self, data: Any) -> Examples:
        """The inputs of the model, with labels that mean nothing."""
        prepared = self._prepared(data)
        if not len(prepared):
            raise SordinoError(f"There should be rows to predict, but {GIVEN} has none; give at least one.")
        return prepared

    def _prepared(self, data: Any) -> Examples:
        if isinstance(data, str | Path):
            return read_inputs(Path(data), self.preparation)
        if _is_frame(data):
            return self.preparation.of_table(self._table(data))
        if isinstance(data, list | tuple) and all(isinstance(text, str) for text in data):
            return self.preparation.of_texts(data)
        try:
            array = np.asarray(data)
        except (ValueError, TypeError) as error:
            raise SordinoError(
                f"Data to predict should be a frame or an array, but got {type(data).__name__}; give "
                f"{self.preparation.wanted}."
            ) from error
        return self.preparation.of_array(array)

    def _table(self, data: Any) -> Table:
        from pandas import DataFrame

        frame: DataFrame = data.to_pandas() if hasattr(data, "to_pandas") else DataFrame(data)
        return Table(frame=frame.reset_index(drop=True), file=GIVEN, dialect=self.preparation.dialect)


def _is_frame(data: object) -> bool:
    """Whether it has named columns: pandas' frames, polars', or a mapping."""
    return isinstance(data, Mapping) or hasattr(data, "columns")
