"""The slow, obvious way to a clipped sum, against which the fast one is held."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from sordino.gradients import cross_entropy_per_example
from sordino.gradients.tape import PerExampleLoss


def rows_by_vmap(
    model: nn.Module,
    inputs: Tensor,
    targets: Tensor,
    *,
    trainable: Sequence[str] | None = None,
    loss: PerExampleLoss = cross_entropy_per_example,
) -> Tensor:
    """Every example's flattened gradient, in the order of the model's parameters."""
    every = {name: value.detach() for name, value in model.named_parameters()}
    chosen = {name: every[name] for name in every if trainable is None or name in trainable}

    def example_loss(parameters: dict[str, Tensor], example: Tensor, target: Tensor) -> Tensor:
        outputs = functional_call(model, {**every, **parameters}, (example[None],))
        return loss(outputs, target[None]).sum()

    gradients = vmap(grad(example_loss), in_dims=(None, 0, 0), randomness="different")(chosen, inputs, targets)
    return torch.cat([gradients[name].flatten(1) for name in chosen], dim=1)


def clip_and_sum(rows: Tensor, clip_norm: float, order: int = 2) -> Tensor:
    norms = torch.linalg.vector_norm(rows, order, dim=1)
    return (clip_norm / norms).clamp(max=1) @ rows


def assert_close(actual: Tensor, expected: Tensor, tolerance: float = 1e-12) -> None:
    scale = float(expected.abs().max()) or 1.0
    assert actual.shape == expected.shape
    assert float((actual - expected).abs().max()) <= tolerance * scale


def square_loss(outputs: Tensor, targets: Tensor) -> Tensor:
    """Smooth, of any output shape, and different at every output element."""
    flat = outputs.flatten(1)
    weights = torch.linspace(0.5, 1.5, flat.shape[1], dtype=flat.dtype)
    return (weights * (flat - targets.to(flat.dtype)[:, None]).square()).sum(1)
