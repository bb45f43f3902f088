"""Train the head on a frozen body."""

from __future__ import annotations

from dataclasses import dataclass

from sordino.core import SordinoError
from sordino.models import Net
from sordino.tuning.strategy import TUNINGS, Tuning


@TUNINGS.register("head")
@dataclass(frozen=True, kw_only=True)
class Head(Tuning):
    """Only the head is trained; the body stays as it started."""

    def trainable(self, net: Net) -> list[str]:
        names = net.parts()["head"]
        if not names:
            raise SordinoError(
                "Tuning the head needs a model with a trainable head, but this one has none that can be told apart; choose "
                "tuning = 'full', or give the model attributes 'body' and 'head' of which it computes head(body(x))."
            )
        return names
