"""PPSGD: an additive model; every client predicts from the shared weights plus weights of its own."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from sordino.data.examples import Examples
from sordino.methods.averaging import Averaging
from sordino.methods.method import METHODS, ClientContext, State, Turn
from sordino.methods.personal import Personalised
from sordino.models import flatten
from sordino.settings import NotNegative


@METHODS.register("ppsgd")
@dataclass(frozen=True, kw_only=True)
class PpSgd(Personalised, Averaging):
    """Client-level DP with an additive model w + v_i: every step moves the shared w and the personal v_i.

    Formal guarantee: only the difference of w is uploaded, clipped and noised; v_i shapes it within the clip.
    """

    personal_step_ratio: NotNegative = 1.0
    """The step of v_i over the step of w. Both have the same gradient, so this alone tells them apart; 0 freezes v_i."""

    def turn(self, start: Tensor, own: Tensor, examples: Examples, context: ClientContext) -> Turn:
        net, space, optimiser = context.net, context.space, self.optimiser
        parameters = space.parameters(net)
        space.write(net, _own_or_zeros(own, start))
        personal = [parameter.detach().clone() for parameter in parameters]
        space.write(net, start)
        shared = [parameter.detach().clone() for parameter in parameters]
        speeds = [optimiser.velocities(shared), optimiser.velocities(personal)]
        _write_sum(parameters, shared, personal)
        for gradients in self.gradients(parameters, examples, context):
            same = [gradient.clone() for gradient in gradients]
            optimiser.step(shared, gradients, speeds[0], self.learning_rate)
            optimiser.step(personal, same, speeds[1], self.learning_rate * self.personal_step_ratio)
            _write_sum(parameters, shared, personal)
        return Turn(update=flatten(shared) - start, personal=flatten(personal))

    def personalise(self, state: State, own: Tensor, examples: Examples, context: ClientContext) -> None:
        context.space.write(context.net, state["model"] + _own_or_zeros(own, state["model"]))


def _own_or_zeros(own: Tensor, like: Tensor) -> Tensor:
    return own if own.numel() else torch.zeros_like(like)


def _write_sum(parameters: list[Tensor], shared: list[Tensor], personal: list[Tensor]) -> None:
    with torch.no_grad():
        torch._foreach_copy_(parameters, torch._foreach_add(shared, personal))
