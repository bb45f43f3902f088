"""Labelled examples as tensors, kept raw in memory and normalised by public constants when they are used."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from sordino.core import SordinoError


@dataclass(frozen=True, kw_only=True)
class Normalisation:
    """features = (inputs * scale - mean) / std, by constants that are public and never computed from private data.

    `mean` and `std` hold one number for all, or one for each channel or column. `missing` holds for each column what takes the place
    of NaN before anything else; it is public too, because a person chose it or it was released.
    """

    scale: float = 1 / 255
    mean: tuple[float, ...] = (0.5,)
    std: tuple[float, ...] = (0.5,)
    missing: tuple[float, ...] = ()

    def check(self, width: int) -> None:
        """Refuse constants that do not fit so many channels or columns."""
        for name in ("mean", "std"):
            given = len(getattr(self, name))
            if given not in (1, width):
                raise SordinoError(
                    f"{name} lists {given} numbers; give one, or one for each of the {width} channels or columns."
                )

    def apply(self, inputs: Tensor) -> Tensor:
        """Normalise a float tensor, in place where nothing is missing."""
        like = inputs.dtype, inputs.device, inputs.ndim
        if self.missing:
            inputs = torch.where(inputs.isnan(), _across(self.missing, like), inputs)
        traced = torch._C._get_tracing_state() is not None or torch.compiler.is_compiling()
        line = _line.__wrapped__ if traced else _line  # a graph has to hold its own constants
        factor, shift = line(self.scale, self.mean, self.std, like)
        return inputs.mul_(factor).sub_(shift)


Like = tuple[torch.dtype, torch.device, int]
"""The type, device and number of dimensions of the tensor that constants are for."""


def _across(constants: tuple[float, ...], like: Like) -> Tensor:
    dtype, device, dimensions = like
    return torch.tensor(constants, dtype=dtype, device=device).view(1, -1, *[1] * (dimensions - 2))


@lru_cache
def _line(scale: float, mean: tuple[float, ...], std: tuple[float, ...], like: Like) -> tuple[Tensor, Tensor]:
    """The factor and the shift of every batch alike; small batches would take longer to have them made than to be normalised."""
    with torch.inference_mode(False):
        shift, spread = _across(mean, like), _across(std, like)
        return scale / spread, shift / spread


IDENTITY = Normalisation(scale=1.0, mean=(0.0,), std=(1.0,))

_LAYOUTS = {(torch.uint8, 4), (torch.float32, 2), (torch.int64, 2)}


@dataclass(frozen=True, kw_only=True, eq=False)
class Examples:
    """Labelled rows as they are kept.

    Args:
        inputs: uint8 images N x C x H x W, float32 rows N x F, or int64 tokens N x L.
        labels: int64 class numbers, or float32 places from 0 to 1 in the range of a number, one for each row.
        normalisation: public constants that `features` applies.

    Example:
        `loss(net(examples.features("cpu")), examples.labels)`
    """

    inputs: Tensor
    labels: Tensor
    normalisation: Normalisation

    def __post_init__(self) -> None:
        if (
            (self.inputs.dtype, self.inputs.ndim) not in _LAYOUTS
            or self.labels.dtype not in (torch.int64, torch.float32)
            or self.labels.ndim != 1
        ):
            raise SordinoError(
                "Examples are uint8 images (N x C x H x W), float32 rows (N x F) or int64 tokens (N x L) with int64 "
                f"or float32 labels (N), not {self.inputs.dtype} {tuple(self.inputs.shape)} with {self.labels.dtype} "
                f"{tuple(self.labels.shape)}; convert them."
            )
        if len(self.inputs) != len(self.labels):
            raise SordinoError(
                f"There are {len(self.inputs)} inputs but {len(self.labels)} labels; each input needs one label."
            )
        if self.inputs.dtype != torch.int64:
            self.normalisation.check(self.inputs.shape[1])

    def __len__(self) -> int:
        return self.labels.shape[0]

    def take(self, indices: Tensor) -> Examples:
        """The examples at these rows, in this order."""
        inputs, labels = (one.index_select(0, indices) for one in (self.inputs, self.labels))
        return Examples(inputs=inputs, labels=labels, normalisation=self.normalisation)

    def features(self, device: torch.device | str) -> Tensor:
        """What a model eats: normalised float32, or tokens unchanged."""
        if self.inputs.dtype == torch.int64 or self.normalisation == IDENTITY:
            return self.inputs.to(device)
        return self.normalisation.apply(self.inputs.to(device=device, dtype=torch.float32, copy=True))
