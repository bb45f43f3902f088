"""From a folder to a model that can be used."""

from __future__ import annotations

from pathlib import Path

from sordino.engine.prediction_file import Prediction
from sordino.engine.record import MODEL, PREDICTION, read_summary
from sordino.engine.simulate.own_model import own_model
from sordino.models.weights import load_weights
from sordino.outside import holding, maker
from sordino.predict.predictor import Predictor
from sordino.pretrain.file import read_weights


def load(folder: str | Path, *, client: str | None = None, model: object = None) -> Predictor:
    """The model of a finished run, of the release of a secure one, or of an export.

    With `client`, the own model of that client of a personalised simulation, made of its rows, which must be at hand; it hides the
    other clients and not this one. `model` is what a Python program gave the run as its model, where it did.

    >>> sordino.load("runs/hospital").predict("new-patients.csv")
    """
    place = model_folder(Path(folder))
    prediction = Prediction.read(place)
    if client is not None:
        own = own_model(Path(folder), client).eval()
        return Predictor(name=f"{prediction.name}, {client}", model=own, preparation=prediction.preparation)
    with holding({} if model is None else {str(prediction.model["name"]): maker(model)}):
        net = prediction.build()
    load_weights(net, read_weights(place / MODEL), origin=str(place / MODEL))
    return Predictor(name=prediction.name, model=net.eval(), preparation=prediction.preparation, note=prediction.note)


def model_folder(folder: Path) -> Path:
    """Where model and preparation lie: of a secure run in the part that may be published."""
    if not (folder / PREDICTION).exists() and (folder / "release" / PREDICTION).exists():
        return folder / "release"
    if (folder / "experiment.json").exists() and not (folder / "summary.json").exists():
        read_summary(folder)
    return folder
