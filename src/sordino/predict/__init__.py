"""Using a trained model: load it, predict with it, export it with a card that says what it promises."""

from sordino.predict.loading import load
from sordino.predict.predictor import Predictor

__all__ = ["Predictor", "load"]
