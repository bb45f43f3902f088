"""The matrix products that a round of dense models cannot do without, and nothing else: no engine can be faster than these."""

from __future__ import annotations

import sys
from collections.abc import Callable

import torch
from torch import nn

from benchmarks.lockstep import serve
from benchmarks.round_jobs import BATCH, ROUND_JOBS, RoundJob
from sordino.engine.allocator import tune_allocator


def products(job: RoundJob) -> Callable[[], None]:
    """Every step's products for all clients at once: forward, the weight's gradient, and what is passed on."""
    layers = [layer for layer in job.model().modules() if isinstance(layer, nn.Linear)]
    inputs = [torch.randn(job.clients, BATCH, layer.in_features) for layer in layers]
    slopes = [torch.randn(job.clients, layer.out_features, BATCH) for layer in layers]
    weights = [torch.randn(job.clients, layer.in_features, layer.out_features) for layer in layers]

    def once() -> None:
        for _ in range(job.steps):
            for place, (values, slope, weight) in enumerate(zip(inputs, slopes, weights, strict=True)):
                torch.bmm(values, weight)
                torch.bmm(slope, values)
                if place:
                    torch.bmm(slope.transpose(1, 2), weight.transpose(1, 2))

    return once


if __name__ == "__main__":
    tune_allocator()
    serve(products(ROUND_JOBS[sys.argv[1]]), note="nothing is learned")
