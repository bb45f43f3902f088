"""Refuses layers that no privacy guarantee can cover."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from sordino.core import SordinoError, unknown
from sordino.models.parts import Net


def validate(net: Net, trainable: Sequence[str]) -> None:
    """Check that a model can be trained privately in these parameters.

    **Formal guarantee.** Clipping bounds one unit's influence only if every example's gradient is its own. A layer that
    normalises by statistics of the batch, or stores statistics of the data, breaks that in any part that is trained.
    """
    names = [name for name, _ in net.named_parameters()]
    for name in trainable:
        if name not in names:
            raise SordinoError(unknown("parameter", name, names))
    if not trainable:
        raise SordinoError("There is nothing to train: the list of trained parameters is empty; choose another tuning.")
    for part in net.parts():
        if any(name.startswith(f"{part}.") for name in trainable):
            _refuse_statistics(part, net.get_submodule(part))


def _refuse_statistics(part: str, module: nn.Module) -> None:
    for name, layer in module.named_modules(prefix=part):
        mixes = isinstance(layer, nn.modules.batchnorm._BatchNorm)
        stores = isinstance(layer, nn.modules.instancenorm._InstanceNorm) and layer.track_running_stats
        if mixes or stores:
            kind = type(layer).__name__
            why = (
                "its batch statistics mix examples, so no example's influence is bounded by clipping"
                if mixes
                else "its running statistics store private data without noise"
            )
            raise SordinoError(f"{kind} at {name!r} is in a trained part, and {why}; use torch.nn.GroupNorm instead.")
