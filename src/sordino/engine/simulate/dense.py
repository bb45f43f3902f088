"""Which stacked work the compiled kernel for dense clients can do."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from torch import nn

from sordino.kernels.dense_clients import DenseLayer
from sordino.models import FlatSpace


def trainable_layers(chain: Sequence[tuple[str, nn.Module]], space: FlatSpace) -> list[DenseLayer] | None:
    """The dense layers of a chain with ReLU between each two and all parameters trained; None for any other chain."""
    working = [(name, layer) for name, layer in chain if not isinstance(layer, nn.Flatten | nn.Identity)]
    kinds = [type(layer) for _, layer in working]
    alternate = all(kind is (nn.ReLU if place % 2 else nn.Linear) for place, kind in enumerate(kinds))
    dense = [(name, layer) for name, layer in working if isinstance(layer, nn.Linear)]
    parameters = {f"{name}.{kind}" for name, layer in dense for kind, _ in layer.named_parameters()}
    if not alternate or len(kinds) % 2 == 0 or parameters != set(space.names):
        return None
    offsets = dict(zip(space.names, space.offsets, strict=True))
    layers = [
        DenseLayer(
            inputs=layer.in_features,
            outputs=layer.out_features,
            weight=offsets[f"{name}.weight"],
            bias=offsets.get(f"{name}.bias"),
        )
        for name, layer in dense
    ]
    fit = all(one.outputs == other.inputs for one, other in pairwise(layers))
    return layers if fit and all(layer.inputs and layer.outputs for layer in layers) else None
