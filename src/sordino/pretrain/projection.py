"""Which directions of a feature space matter, from public features alone."""

from __future__ import annotations

import torch
from torch import Tensor

from sordino.core import SordinoError


def fit_projection(features: Tensor, components: int, *, shrinkage: float) -> tuple[Tensor, Tensor]:
    """The mean and the principal directions (features x components), scaled so that all components spread nearly alike.

    Variances are raised by `shrinkage` times their mean before they are divided out, so faint directions are not blown up.

    Formal guarantee: computed from public features alone, so it is a constant for whatever private data come later.
    """
    if len(features) <= components:
        raise SordinoError(
            f"A projection to {components} components needs more public images than that, but got {len(features)}; "
            "take more of them or fewer components."
        )
    exact = features.double()
    mean = exact.mean(0)
    variances, directions = torch.linalg.eigh((exact - mean).T.cov())
    kept = variances.flip(0)[:components].clamp_min(0)
    scales = (kept + shrinkage * kept.mean()).rsqrt()
    return mean.float(), (directions.flip(1)[:, :components] * scales).float()
