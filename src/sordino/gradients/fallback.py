"""Per-example gradients of any model: vmap(grad), or one example at a time where vmap cannot follow the model."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from sordino.gradients.layers import Booking, Request
from sordino.gradients.layers.booking import materialise
from sordino.gradients.tape import PerExampleLoss, per_example_losses

Gradients = dict[str, Tensor]


def book_by_vmap(
    model: nn.Module,
    trainable: Sequence[str],
    inputs: Tensor,
    targets: Tensor,
    *,
    request: Request,
    loss: PerExampleLoss,
) -> dict[str, Booking]:
    """Materialised bookings of every trainable parameter."""
    rows = vmap_gradients(model, trainable, inputs, targets, loss=loss)
    return {name: materialise(row, request) for name, row in rows.items()}


def vmap_gradients(
    model: nn.Module, trainable: Sequence[str], inputs: Tensor, targets: Tensor, *, loss: PerExampleLoss
) -> Gradients:
    """Each example's gradient of each trainable parameter, stacked along the first dimension."""
    tensors = {name: value.detach() for name, value in (*model.named_parameters(), *model.named_buffers())}
    trained = {name: tensors.pop(name) for name in trainable}

    def example_loss(parameters: Gradients, example: Tensor, target: Tensor) -> Tensor:
        outputs = functional_call(model, {**tensors, **parameters}, (example.unsqueeze(0),))
        return per_example_losses(loss, outputs, target.unsqueeze(0)).sum()

    one = grad(example_loss)
    try:
        stacked: Gradients = vmap(one, in_dims=(None, 0, 0), randomness="different")(trained, inputs, targets)
    except (RuntimeError, NotImplementedError, ValueError):
        singles = [one(trained, example, target) for example, target in zip(inputs, targets, strict=True)]
        stacked = {name: torch.stack([single[name] for single in singles]) for name in trained}
    return {name: value.detach() for name, value in stacked.items()}
