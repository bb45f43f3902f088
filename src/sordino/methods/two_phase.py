"""Two-phase local work: tune the own head on a frozen extractor, then train the extractor under the frozen head."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from sordino.data.examples import Examples
from sordino.methods.averaging import Averaging
from sordino.methods.method import ClientContext, State, Turn
from sordino.methods.personal import Personalised, head_space
from sordino.models import Net
from sordino.settings import AtLeastOne, Positive


@dataclass(frozen=True, kw_only=True)
class TwoPhase(Personalised, Averaging):
    """The head never leaves its client; the extractor is shared.

    Formal guarantee: only the extractor's difference is uploaded, clipped and noised; the head shapes it within the clip.
    """

    epochs: AtLeastOne = 5
    learning_rate: Positive = 0.01

    head_stays_home: ClassVar[bool] = True

    def first_personal(self, net: Net) -> Tensor:
        return head_space(net).read(net)

    def turn(self, start: Tensor, own: Tensor, examples: Examples, context: ClientContext) -> Turn:
        head = self.tuned_head(start, own, examples, context)
        return Turn(update=self.run(start, examples, context), personal=head)

    def tuned_head(self, extractor: Tensor, own: Tensor, examples: Examples, context: ClientContext) -> Tensor:
        """Phase one: the own head, tuned on the outputs of this extractor, and left in `context.net`."""
        net, head = context.net, head_space(context.net)
        context.space.write(net, extractor)
        head.write(net, own)
        self.tune_head(examples, context)
        return head.read(net)

    def personalise(self, state: State, own: Tensor, examples: Examples, context: ClientContext) -> None:
        self.tuned_head(state["model"], own, examples, context)

    def welcome(self, state: State, first: Tensor, examples: Examples, context: ClientContext) -> None:
        self.personalise(state, first, examples, context)
