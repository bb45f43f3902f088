"""The trained parameters of a model as one flat buffer."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import torch
from torch import Tensor, nn

from sordino.core import SordinoError, unknown


class FlatSpace:
    """Parameters of a model as one flat buffer: what is sent, clipped and noised.

    Args:
        model: the model whose parameters these are; other models of the same make may be read and written too.
        names: which parameters, in the model's own order whatever theirs is; by default all that need gradients.

    Example:
        `space = FlatSpace(net); space.write(net, space.read(net) + update)`
    """

    def __init__(self, model: nn.Module, names: Sequence[str] | None = None) -> None:
        parameters = dict(model.named_parameters())
        for name in names or ():
            if name not in parameters:
                raise SordinoError(unknown("parameter", name, parameters))
        wanted = {name for name, one in parameters.items() if one.requires_grad} if names is None else set(names)
        self.names = [name for name in parameters if name in wanted]
        self.shapes = [parameters[name].shape for name in self.names]
        self.sizes = [shape.numel() for shape in self.shapes]
        *self.offsets, self.size = accumulate(self.sizes, initial=0)

    def read(self, model: nn.Module) -> Tensor:
        """A flat copy of the model's values."""
        return flatten(self.parameters(model))

    def write(self, model: nn.Module, flat: Tensor) -> None:
        """Copy a flat buffer's values into the model."""
        self.fill(self.parameters(model), flat)

    def fill(self, parameters: list[Tensor], flat: Tensor) -> None:
        """The same for whoever writes often, into what `parameters` gave."""
        if flat.shape != (self.size,):
            raise ValueError(f"expected a flat buffer of {self.size} values, got shape {tuple(flat.shape)}")
        if not self.names:
            return
        with torch.no_grad():
            torch._foreach_copy_(parameters, list(self.views(flat).values()))

    def views(self, flat: Tensor) -> dict[str, Tensor]:
        """The parameters as views into a flat buffer; a buffer of K rows gives K of each."""
        if flat.shape[-1:] != (self.size,):
            raise ValueError(f"expected a last dimension of {self.size}, got shape {tuple(flat.shape)}")
        stack = flat.shape[:-1]
        return {
            name: flat.narrow(-1, offset, size).view(*stack, *shape)
            for name, offset, size, shape in zip(self.names, self.offsets, self.sizes, self.shapes, strict=True)
        }

    def parameters(self, model: nn.Module) -> list[Tensor]:
        """The model's own parameters, in the order of the buffer."""
        parameters = dict(model.named_parameters())
        return [parameters[name] for name in self.names]


def flatten(tensors: Sequence[Tensor]) -> Tensor:
    """One flat copy of all values, in the order of the tensors."""
    return torch.cat([tensor.detach().reshape(-1) for tensor in tensors]) if tensors else torch.empty(0)
