"""Models: builders with a body and a head, and the flat space of what is trained."""

from sordino.models.assembly import build
from sordino.models.flat import FlatSpace, flatten
from sordino.models.parts import Dropout, Net, draw_dropout_from
from sordino.models.registry import MODELS, Builder
from sordino.models.validation import validate

__all__ = ["MODELS", "Builder", "Dropout", "FlatSpace", "Net", "build", "draw_dropout_from", "flatten", "validate"]
