"""A yardstick: as much arithmetic as a round of dense models cannot do without, in one large matrix product of torch's."""

from __future__ import annotations

import sys
from collections.abc import Callable

import torch
from torch import nn

from benchmarks.lockstep import serve
from benchmarks.round_jobs import BATCH, ROUND_JOBS, RoundJob

SIDE = 2048
"""Large enough for the best rate that torch reaches here."""


def multiplications(job: RoundJob) -> int:
    """Forward, the weight's gradient, and what is passed on to the layer before."""
    layers = [layer for layer in job.model().modules() if isinstance(layer, nn.Linear)]
    sizes = [layer.in_features * layer.out_features for layer in layers]
    return job.clients * job.steps * BATCH * (3 * sum(sizes) - sizes[0])


def one_product(job: RoundJob) -> Callable[[], object]:
    """A product of so many multiplications."""
    rows = round(multiplications(job) / SIDE**2)
    left, right = torch.randn(rows, SIDE), torch.randn(SIDE, SIDE)
    return lambda: left @ right


if __name__ == "__main__":
    serve(one_product(ROUND_JOBS[sys.argv[1]]), note="nothing is learned")
