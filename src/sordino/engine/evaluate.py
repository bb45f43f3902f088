"""How good a model is, on data that are public."""

from __future__ import annotations

import torch

from sordino.data.examples import Examples
from sordino.models import Net

CHUNK = 1024


def accuracy(net: Net, examples: Examples, device: torch.device) -> float:
    """The share of examples whose most likely class is the right one."""
    net.eval()
    right = 0
    with torch.inference_mode():
        for rows in torch.arange(len(examples)).split(CHUNK):
            part = examples.take(rows)
            right += int((net(part.features(device)).argmax(1).cpu() == part.labels).sum())
    net.train()
    return right / len(examples)
