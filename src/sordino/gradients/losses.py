"""What training makes small: cross-entropy for classes, and for a number the same with its place in its range as the chance."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from sordino.core import SordinoError

aten = torch.ops.aten


def cross_entropy_per_example(outputs: Tensor, targets: Tensor) -> Tensor:
    return cross_entropy(outputs, targets, reduction="none")


def loss_per_example(outputs: Tensor, targets: Tensor) -> Tensor:
    """One loss for each example: whole numbers are classes, real ones are places from 0 to 1 in the range of a number.

    For a number a model has one output o and predicts the place 1/(1 + e⁻ᵒ). This loss is least where that is the mean of what is
    to be predicted, as with squared errors, but its gradient by o is predicted less true place: never beyond 1, however wrong a
    model is, so that steps which suit classes suit numbers too (Papke and Wooldridge 1996).
    """
    if not targets.is_floating_point():
        return cross_entropy_per_example(outputs, targets)
    if outputs.ndim != 2 or outputs.shape[1] != 1:
        raise SordinoError(
            f"A number is learnt by a model with one output, but this one gives {tuple(outputs.shape[1:])} for an example; mend the "
            "model, or declare classes."
        )
    return binary_cross_entropy_with_logits(outputs[:, 0], targets, reduction="none")


def mean_loss(outputs: Tensor, targets: Tensor) -> Tensor:
    """The mean over a batch."""
    return loss_per_example(outputs, targets).mean() if targets.is_floating_point() else cross_entropy(outputs, targets)


def is_cross_entropy(loss: Callable[[Tensor, Tensor], Tensor], targets: Tensor) -> bool:
    """Whether this loss of these targets is cross-entropy, example by example."""
    return loss in (cross_entropy_per_example, loss_per_example) and targets.dtype == torch.int64


def slope_without_graph(loss: Callable[[Tensor, Tensor], Tensor], outputs: Tensor, targets: Tensor) -> Tensor | None:
    """The gradient of every example's loss by its outputs, from the operations that autograd would call; None for other losses.

    A graph of three nodes costs more than these operations on small outputs. Targets are checked by the loss itself.
    """
    if not is_cross_entropy(loss, targets):
        return None
    if outputs.ndim != 2 or targets.shape != outputs.shape[:1]:
        return None
    logs = torch.log_softmax(outputs, 1)
    losses, weight = aten.nll_loss_forward.default(logs, targets, None, 0, -100)
    slope = aten.nll_loss_backward.default(torch.ones_like(losses), logs, targets, None, 0, -100, weight)
    found: Tensor = aten._log_softmax_backward_data.default(slope, logs, 1, outputs.dtype)
    return found
