"""Training at the worst nearby weights: the step that tells SAM and DPAdapter from ordinary training."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

Gradient = Callable[[Tensor], list[Tensor]]
"""The mean loss's gradient over these rows, at the weights as they are."""


@dataclass(frozen=True, kw_only=True)
class Ball:
    """Δ = `rate`·g, scaled back to norm `radius` where it is longer."""

    radius: float
    rate: float

    def perturbation(self, gradient: Sequence[Tensor]) -> list[Tensor]:
        step = [self.rate * part for part in gradient]
        norm = float(torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(part) for part in step])))
        return [part * (self.radius / norm) for part in step] if norm > self.radius else step


@contextmanager
def perturbed(parameters: Sequence[Tensor], step: Sequence[Tensor]) -> Iterator[None]:
    """Inside, the parameters are moved by `step`; afterwards they are what they were, to the last bit."""
    kept = [parameter.detach().clone() for parameter in parameters]
    with torch.no_grad():
        torch._foreach_add_(list(parameters), list(step))
    try:
        yield
    finally:
        with torch.no_grad():
            torch._foreach_copy_(list(parameters), kept)


def in_chunks(gradient: Gradient, rows: Tensor, chunk: int) -> list[Tensor]:
    """The gradient over many rows, from as many at a time as memory allows."""
    total: list[Tensor] = []
    for part in rows.split(chunk):
        weighted = (
            torch._foreach_mul(gradient(part), len(part) / len(rows)) if len(part) < len(rows) else gradient(part)
        )
        total = list(torch._foreach_add(total, weighted)) if total else list(weighted)
    return total
