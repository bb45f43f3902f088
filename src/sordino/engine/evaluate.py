"""How good a model is, on data that are public."""

from __future__ import annotations

import torch
from torch import Tensor

from sordino.data.examples import Examples
from sordino.models import Net

CHUNK = 1024


def accuracy(net: Net, examples: Examples, device: torch.device) -> float:
    """The share of examples whose most likely class is the right one."""
    return int(correct(net, examples, device).sum()) / len(examples)


def correct(net: Net, examples: Examples, device: torch.device) -> Tensor:
    """For each example, whether its most likely class is the right one."""
    net.eval()
    with torch.inference_mode():
        chunks = [
            net(part.features(device)).argmax(1).cpu() == part.labels
            for rows in torch.arange(len(examples)).split(CHUNK)
            for part in (examples.take(rows),)
        ]
    net.train()
    return torch.cat(chunks)
