"""PMTL-FT: mean-regularised multi-task learning; every client keeps a whole model, held to the shared mean."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from sordino.data.examples import Examples
from sordino.methods.averaging import Averaging
from sordino.methods.method import METHODS, ClientContext, State, Turn
from sordino.methods.personal import Personalised
from sordino.settings import NotNegative


@METHODS.register("pmtl-ft")
@dataclass(frozen=True, kw_only=True)
class PmtlFt(Personalised, Averaging):
    """Client-level DP multi-task learning: own models w_i with (λ/2)·|w_i − w̄|² to the shared mean, heads tuned last.

    Formal guarantee: only w_i − w̄ is uploaded, clipped and noised.
    """

    mean_weight: NotNegative = 0.1
    """λ: how strongly a client's model is held to the mean."""
    restart: bool = False
    """Start every turn at the mean instead of at the own model; this is FedProx, with heads tuned last."""

    def turn(self, start: Tensor, own: Tensor, examples: Examples, context: ClientContext) -> Turn:
        net, space = context.net, context.space
        space.write(net, start)
        parameters = space.parameters(net)
        mean = [parameter.detach().clone() for parameter in parameters]
        if own.numel() and not self.restart:
            space.write(net, own)
        gradients = self.gradients(parameters, examples, context)
        self.descend(parameters, self._held_to(mean, parameters, gradients) if self.mean_weight else gradients)
        model = space.read(net)
        return Turn(update=model - start, personal=model)

    def _held_to(
        self, mean: list[Tensor], parameters: list[Tensor], gradients: Iterator[list[Tensor]]
    ) -> Iterator[list[Tensor]]:
        """Each gradient with that of the penalty, λ·(w_i − w̄), added."""
        for gradient in gradients:
            with torch.no_grad():
                torch._foreach_add_(gradient, torch._foreach_sub(parameters, mean), alpha=self.mean_weight)
            yield gradient

    def personalise(self, state: State, own: Tensor, examples: Examples, context: ClientContext) -> None:
        context.space.write(context.net, own if own.numel() else state["model"])
        self.tune_head(examples, context)
