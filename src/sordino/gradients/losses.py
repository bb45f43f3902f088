"""What training makes small: cross-entropy for classes, and for a number the same with its place in its range as the chance."""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from sordino.core import SordinoError


def loss_per_example(outputs: Tensor, targets: Tensor) -> Tensor:
    """One loss for each example: whole numbers are classes, real ones are places from 0 to 1 in the range of a number.

    For a number a model has one output o and predicts the place 1/(1 + e⁻ᵒ). This loss is least where that is the mean of what is
    to be predicted, as with squared errors, but its gradient by o is predicted less true place: never beyond 1, however wrong a
    model is, so that steps which suit classes suit numbers too (Papke and Wooldridge 1996).
    """
    if not targets.is_floating_point():
        return cross_entropy(outputs, targets, reduction="none")
    if outputs.ndim != 2 or outputs.shape[1] != 1:
        raise SordinoError(
            f"A number is learnt by a model with one output, but this one gives {tuple(outputs.shape[1:])} for an example; mend the "
            "model, or declare classes."
        )
    return binary_cross_entropy_with_logits(outputs[:, 0], targets, reduction="none")


def mean_loss(outputs: Tensor, targets: Tensor) -> Tensor:
    """The mean over a batch."""
    return loss_per_example(outputs, targets).mean() if targets.is_floating_point() else cross_entropy(outputs, targets)
