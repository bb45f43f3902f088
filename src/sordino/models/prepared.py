"""Another model's body behind a preparation that public data fix: enlarge, describe, project, bring to one length."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate, normalize

from sordino.core import SordinoError
from sordino.models.inputs import Inputs, RefusedInputs
from sordino.models.parts import Net
from sordino.models.registry import MODELS
from sordino.settings import AtLeastOne, validated


@MODELS.register("prepared")
@dataclass(frozen=True, kw_only=True)
class Prepared:
    """The body of `source` on enlarged images, its features projected to `components` of one length; start = 'distilled' fits it.

    With `mirror` the features are the mean over the image and its mirror image.
    """

    source: str = "efficientnet_lite0"
    side: AtLeastOne = 128
    mirror: bool = True
    components: AtLeastOne = 256

    def build(self, inputs: Inputs, classes: int) -> PreparedNet:
        channels, height, width = inputs.images("prepared", least=1)
        if self.side < max(height, width):
            raise RefusedInputs(
                f"Model 'prepared' enlarges images to side = {self.side}, but the data are {inputs}; choose a larger side."
            )
        source = self.build_source(channels, self.side, classes)
        features = source.head.in_features
        assert isinstance(features, int)
        if self.components > features:
            raise SordinoError(
                f"Model {self.source!r} has {features} features, but got components = {self.components}; choose fewer."
            )
        body = PreparedBody(source.body, features=features, settings=self)
        return PreparedNet(body=body, head=nn.Linear(self.components, classes))

    def build_source(self, channels: int, side: int, classes: int) -> Net:
        """The source model as it is by itself, for images of this side."""
        shape = (channels, side, side)
        try:
            source: Net = validated(MODELS[self.source], {}, where="model").build(Inputs(shape=shape), classes)
        except SordinoError as refusal:
            raise SordinoError(f"Model 'prepared' needs images that its source takes: {refusal}") from refusal
        if not isinstance(source.head, nn.Linear):
            raise SordinoError(
                f"Model 'prepared' needs a source with a linear head, but {self.source!r} has another; choose another source."
            )
        return source


class PreparedNet(Net):
    """A head on a prepared body."""

    body: PreparedBody


class PreparedBody(nn.Module):
    """From images to features of length √components.

    Formal guarantee: mean and directions are set from public data alone, and each example's features depend on that
    example alone, so whatever is bounded per example on the features is bounded per example on the images.
    """

    mean: Tensor
    directions: Tensor

    def __init__(self, source: nn.Module, *, features: int, settings: Prepared) -> None:
        super().__init__()
        self.source = source
        self.settings = settings
        self.register_buffer("mean", torch.zeros(features))
        self.register_buffer("directions", torch.eye(features, settings.components))

    def forward(self, inputs: Tensor) -> Tensor:
        projected = (self.describe(inputs) - self.mean) @ self.directions
        return normalize(projected, dim=1) * math.sqrt(self.settings.components)

    def describe(self, inputs: Tensor) -> Tensor:
        """The source's features of the enlarged images, before any projection."""
        enlarged = enlarge(inputs, self.settings.side)
        features: Tensor = self.source(enlarged).flatten(1)
        if self.settings.mirror:
            features = (features + self.source(enlarged.flip(3)).flatten(1)) / 2
        return features

    def extra_repr(self) -> str:
        return f"side={self.settings.side}, mirror={self.settings.mirror}"


def enlarge(images: Tensor, side: int) -> Tensor:
    """Normalised images at a larger side, by bicubic interpolation, in the memory order that convolutions like best."""
    larger = interpolate(images, size=(side, side), mode="bicubic", align_corners=False)
    return larger.contiguous(memory_format=torch.channels_last)
