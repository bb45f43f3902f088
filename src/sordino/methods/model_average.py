"""Averages of clients' models and updates by their public sizes."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from sordino.methods.federation import Federation, Upload


def shares_of(uploads: Sequence[Upload], federation: Federation) -> list[tuple[float, Tensor]]:
    """Each model that came back, with what it counts in the average."""
    everyone = sum(federation.sizes)
    expected_share = federation.expected_cohort / len(federation.sizes)
    return [(federation.sizes[upload.client] / everyone / expected_share, upload.value.value) for upload in uploads]


def averaged(model: Tensor, shares: Sequence[tuple[float, Tensor]]) -> Tensor:
    """The model after the mean step of those that came back; whoever is absent keeps the global model's share."""
    after = model.clone()
    for share, upload in shares:
        after += share * (upload - model)
    return after


def mean_by_size(uploads: Sequence[Upload], federation: Federation) -> Tensor:
    """The mean of the updates that came back, by the rows of their senders; for methods without privacy, who may look."""
    weights = torch.tensor([federation.sizes[upload.client] for upload in uploads], dtype=torch.float64)
    updates = torch.stack([upload.value.value for upload in uploads])
    mean: Tensor = (weights / weights.sum()).to(updates) @ updates
    return mean
