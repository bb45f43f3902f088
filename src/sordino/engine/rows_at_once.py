"""How many rows a model is given at once where nothing is trained: as many as the widest of its layers leaves room for."""

from __future__ import annotations

from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from sordino.data.examples import Examples
from sordino.models import Net

MOST, FEWEST = 1024, 16
WIDEST_BYTES = 1 << 27
"""Of what the widest layer makes of all rows; about three times as much is held at once, with its inputs and room to work."""

_known: WeakKeyDictionary[nn.Module, dict[torch.Size, int]] = WeakKeyDictionary()


def rows_at_once(net: Net, examples: Examples, device: torch.device) -> int:
    """A power of two, the same for all rows of one shape; found by looking at one row, once for each model."""
    if not len(examples):
        return FEWEST
    found, shape = _known.setdefault(net, {}), examples.inputs.shape[1:]
    if shape not in found:
        found[shape] = _room(_widest(net, examples.take(torch.tensor([0])).features(device)))
    return found[shape]


def _room(widest_bytes: int) -> int:
    rows = MOST
    while rows > FEWEST and rows * widest_bytes > WIDEST_BYTES:
        rows //= 2
    return rows


def _widest(net: nn.Module, row: Tensor) -> int:
    """Bytes of the largest tensor that any layer makes of one row."""
    sizes = [row.nbytes]

    def seen(layer: nn.Module, args: object, made: object) -> None:
        tensors = made if isinstance(made, tuple) else (made,)
        sizes.extend(one.nbytes for one in tensors if isinstance(one, Tensor))

    hooks = [layer.register_forward_hook(seen) for layer in net.modules()]
    try:
        with torch.inference_mode():
            net(row)
    finally:
        for hook in hooks:
            hook.remove()
    return max(sizes)
