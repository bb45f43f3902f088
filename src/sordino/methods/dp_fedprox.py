"""DP-FedProx: DP-FedAvg whose clients are held near the model that they were sent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from torch import Tensor

from sordino.data.examples import Examples
from sordino.methods.averaging import Averaging
from sordino.methods.local_sgd import LocalSgd
from sordino.methods.method import METHODS, ClientContext
from sordino.settings import NotNegative


@METHODS.register("dp-fedprox")
@dataclass(frozen=True, kw_only=True)
class DpFedProx(Averaging):
    """Client-level DP with a proximal term: every local step is pulled back to the model that was sent (FedProx).

    Clients minimise their loss plus (μ/2)·‖θ − θ₀‖², where θ₀ is the model they were sent (arXiv:1812.06127). With mu = 0 this
    is DP-FedAvg, bit for bit. A pull keeps updates of skewed clients short, so that less of them is clipped away.

    Formal guarantee: that of DP-FedAvg. The term changes what a client computes of its own rows before the clip.
    """

    mu: NotNegative = 0.1
    """μ: the strength of the pull, as a factor of the distance."""

    def stacked(self) -> LocalSgd | None:
        """Without a pull the work is plain SGD."""
        return self.plain() if self.mu == 0 else None

    def gradients(
        self, parameters: Sequence[Tensor], examples: Examples, context: ClientContext
    ) -> Iterator[list[Tensor]]:
        steps = super().gradients(parameters, examples, context)
        return self._pulled(steps, parameters) if self.mu else steps

    def _pulled(self, steps: Iterator[list[Tensor]], parameters: Sequence[Tensor]) -> Iterator[list[Tensor]]:
        sent = [parameter.detach().clone() for parameter in parameters]
        for gradients in steps:
            yield [
                gradient + self.mu * (parameter.detach() - first)
                for gradient, parameter, first in zip(gradients, parameters, sent, strict=True)
            ]
