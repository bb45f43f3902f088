"""The average of clients' models by their public sizes; whoever is absent keeps the global model's share."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from sordino.methods.federation import Federation, Upload


def shares_of(uploads: Sequence[Upload], federation: Federation) -> list[tuple[float, Tensor]]:
    """Each model that came back, with what it counts in the average."""
    everyone = sum(federation.sizes)
    expected_share = federation.expected_cohort / len(federation.sizes)
    return [(federation.sizes[upload.client] / everyone / expected_share, upload.value.value) for upload in uploads]


def averaged(model: Tensor, shares: Sequence[tuple[float, Tensor]]) -> Tensor:
    """The model after the mean step of those that came back."""
    after = model.clone()
    for share, upload in shares:
        after += share * (upload - model)
    return after
