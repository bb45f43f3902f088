"""A frozen classifier with a trained border around its images and a trained map of its logits."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate, pad, relu

from sordino.gradients.layers import RULES, Booking, Capture, Request
from sordino.gradients.layers.booking import materialise
from sordino.models.assembly import seeded
from sordino.models.parts import Net

BORDER = "body.border.values"


class Border(nn.Module):
    """Puts the image into the middle of a frame of zeros and adds tanh(mask · values), where the mask spares the image."""

    mask: Tensor
    live: Tensor
    """Where in the flattened frame values have any effect."""

    def __init__(self, *, channels: int, frame: int, image: int) -> None:
        super().__init__()
        self.values = nn.Parameter(torch.zeros(channels, frame, frame))
        self._image = (image, image)
        before = (frame - image) // 2
        self._margins = [before, frame - image - before] * 2
        mask = pad(torch.zeros(channels, image, image), self._margins, value=1.0)
        self.register_buffer("mask", mask, persistent=False)
        self.register_buffer("live", mask.flatten().nonzero().squeeze(1), persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        return pad(self._fitted(images), self._margins) + torch.tanh(self.mask * self.values)

    def _fitted(self, images: Tensor) -> Tensor:
        if tuple(images.shape[2:]) == self._image:
            return images
        return interpolate(images, size=self._image, mode="bilinear", antialias=True)


def book_border(capture: Capture, grads: Tensor, request: Request) -> dict[str, Booking]:
    """An example's gradient is the frame's, times the slope of tanh; only live values have one, so only they are kept."""
    layer = capture.layer
    assert isinstance(layer, Border)
    slope = 1 - torch.tanh(layer.values.detach().flatten()[layer.live]).square()
    rows = grads.flatten(1)[:, layer.live] * slope
    return {"values": materialise(rows, request, partial(_in_frame, live=layer.live, like=layer.values))}


def _in_frame(row: Tensor, *, live: Tensor, like: Tensor) -> Tensor:
    return row.new_zeros(like.numel()).index_copy(0, live, row).view(like.shape)


RULES[Border] = book_border


class ReprogrammedBody(nn.Module):
    """The source's logits for the framed image. The source stays in evaluation mode, whatever mode is asked for.

    **Formal guarantee.** In evaluation mode no layer of the source mixes examples or stores anything of the data.
    """

    def __init__(self, *, border: Border, source: Net, relu: bool) -> None:
        super().__init__()
        self.border = border
        self.source = source.eval()
        self._relu = relu

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.source(self.border(images))
        return relu(logits) if self._relu else logits

    def train(self, mode: bool = True) -> ReprogrammedBody:
        super().train(mode)
        self.source.eval()
        return self


class Reprogrammed(Net):
    """`channels` · `frame`² border values and a linear map from the source's classes to the target's are to be trained."""

    body: ReprogrammedBody

    def __init__(
        self,
        source: Net,
        *,
        channels: int,
        frame: int,
        image: int,
        source_classes: int,
        classes: int,
        relu: bool = False,
        random_border: bool = False,
        seed: int | None = None,
    ) -> None:
        border = Border(channels=channels, frame=frame, image=image)
        with seeded(seed):
            output_map = nn.Linear(source_classes, classes)
            if random_border:
                nn.init.normal_(border.values)
        super().__init__(body=ReprogrammedBody(border=border, source=source, relu=relu), head=output_map)

    def parts(self) -> dict[str, list[str]]:
        """Border, source and head."""
        names = [name for name, _ in self.named_parameters()]
        prefixes = ("body.border", "body.source", "head")
        return {part: [name for name in names if name.startswith(f"{part}.")] for part in prefixes}
