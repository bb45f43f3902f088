"""Convolutions over one or two dimensions: any stride, padding, dilation and groups, in channels-last order inside."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sordino.gradients.layers import conv_groups
from sordino.gradients.layers.booking import Booking, Capture, Request, materialise
from sordino.gradients.layers.contraction import BOX_COST, Contraction, book_weight
from sordino.kernels.convolution import arrange, geometry_of, suits, weight_rows

Pair = tuple[int, int]


class ConvContraction(Contraction):
    """Positions are output pixels; a patch is what the kernel covers, in (row, column, channel) order."""

    def __init__(
        self, inputs: Tensor, grads: Tensor, weight: Tensor, *, stride: Pair, padding: Pair, dilation: Pair, groups: int
    ) -> None:
        super().__init__(inputs, grads)
        self.weight = weight
        self.stride, self.padding, self.dilation, self.blocks = stride, padding, dilation, groups
        self.kernel: Pair = (weight.shape[2], weight.shape[3])
        self.channels = weight.shape[1]
        self.out_size: Pair = (grads.shape[2], grads.shape[3])
        self.in_size: Pair = (inputs.shape[2] + 2 * padding[0], inputs.shape[3] + 2 * padding[1])
        self.positions = self.out_size[0] * self.out_size[1]
        self.fan_in = self.channels * self.kernel[0] * self.kernel[1]
        self.fan_out = weight.shape[0] // groups

    def patches(self, examples: slice) -> Tensor:
        padded = self._padded(examples)
        batch = len(padded)
        image, row, column, _ = padded.stride()
        (rows, columns), (height, width) = self.kernel, self.out_size
        windows = padded.as_strided(
            (batch, self.blocks, height, width, rows, columns, self.channels),
            (
                image,
                self.channels,
                row * self.stride[0],
                column * self.stride[1],
                row * self.dilation[0],
                column * self.dilation[1],
                1,
            ),
        )
        return windows.reshape(batch * self.blocks, self.positions, self.fan_in)

    def outputs(self, examples: slice) -> Tensor:
        grads = self.grads[examples].permute(0, 2, 3, 1)
        if self.blocks == 1:
            return grads.reshape(-1, self.positions, self.fan_out)
        split = grads.reshape(-1, self.positions, self.blocks, self.fan_out).transpose(1, 2)
        return split.reshape(-1, self.positions, self.fan_out)

    def patch_gram(self, examples: slice) -> Tensor:
        """The Gram matrix of pixels, box-summed along its diagonals: no patch is ever copied."""
        padded = self._padded(examples)
        (in_height, in_width), (height, width) = self.in_size, self.out_size
        pixels = padded.reshape(-1, in_height * in_width, self.blocks, self.channels).transpose(1, 2)
        pixels = pixels.reshape(-1, in_height * in_width, self.channels)
        gram = torch.bmm(pixels, pixels.transpose(1, 2)).view(-1, in_height, in_width, in_height, in_width)
        by_row = gram.new_zeros(gram.shape[0], height, in_width, height, in_width)
        for offset in range(self.kernel[0]):
            rows = _taps(offset * self.dilation[0], height, self.stride[0])
            by_row += gram[:, rows, :, rows]
        boxes = gram.new_zeros(gram.shape[0], height, width, height, width)
        for offset in range(self.kernel[1]):
            columns = _taps(offset * self.dilation[1], width, self.stride[1])
            boxes += by_row[:, :, columns, :, columns]
        return boxes.view(-1, self.positions, self.positions)

    def arrange(self, total: Tensor) -> Tensor:
        shape = (self.blocks * self.fan_out, *self.kernel, self.channels)
        return total.view(shape).permute(0, 3, 1, 2).contiguous()

    def contract(self, inputs: Tensor, grads: Tensor, into: Tensor) -> None:
        _, total, _ = torch.ops.aten.convolution_backward(
            grads,
            inputs,
            self.weight,
            None,
            self.stride,
            self.padding,
            self.dilation,
            False,
            (0, 0),
            self.blocks,
            (False, True, False),
        )
        into.view(total.shape).add_(total)

    def patch_gram_cost(self) -> int:
        (in_height, in_width), (height, width) = self.in_size, self.out_size
        gram = (in_height * in_width) ** 2 * self.channels
        boxes = self.kernel[0] * (height * in_width) ** 2 + self.kernel[1] * (height * width) ** 2
        return self.blocks * (gram + BOX_COST * boxes)

    def patch_elements(self) -> int:
        return self.blocks * self.positions * self.fan_in

    def _padded(self, examples: slice) -> Tensor:
        images = self.inputs[examples].permute(0, 2, 3, 1)
        rows, columns = self.padding
        return (F.pad(images, (0, 0, columns, columns, rows, rows)) if rows or columns else images).contiguous()


def book_conv(capture: Capture, grads: Tensor, request: Request) -> dict[str, Booking]:
    bookings: dict[str, Booking] = {}
    if "weight" in request.wanted:
        by_kernel = not request.whole_rows and suits(capture.layer, capture.inputs, grads)
        bookings["weight"] = (book_by_kernel if by_kernel else book_by_torch)(capture, grads, request)
    if "bias" in request.wanted:
        bookings["bias"] = materialise(grads.flatten(2).sum(2), request)
    return bookings


def book_by_kernel(capture: Capture, grads: Tensor, request: Request) -> Booking:
    """Every example's gradient, summed over positions in registers: as dear as the plain gradient."""
    assert isinstance(capture.layer, nn.Conv2d)
    return materialise(weight_rows(capture.inputs, grads, geometry_of(capture.layer)), request, arrange)


def book_by_torch(capture: Capture, grads: Tensor, request: Request) -> Booking:
    """By torch, as norms come cheapest."""
    if conv_groups.suits(capture.layer, capture.inputs, grads):
        assert isinstance(capture.layer, nn.Conv2d)
        return materialise(conv_groups.rows_by_groups(capture.layer, capture.inputs, grads), request)
    return book_weight(_geometry(capture, grads), request)


def _geometry(capture: Capture, grads: Tensor) -> ConvContraction:
    """Bring every padding to equal zeros on both sides, and one dimension to two."""
    layer = capture.layer
    assert isinstance(layer, nn.Conv1d | nn.Conv2d)
    inputs, weight = capture.inputs, layer.weight
    around = list(layer._reversed_padding_repeated_twice)
    if layer.padding_mode != "zeros":
        inputs, around = F.pad(inputs, around, mode=layer.padding_mode), [0] * len(around)
    elif around[::2] != around[1::2]:
        inputs, around = F.pad(inputs, around), [0] * len(around)
    padding, stride, dilation = tuple(around[::-2]), layer.stride, layer.dilation
    if isinstance(layer, nn.Conv1d):
        inputs, grads, weight = inputs.unsqueeze(2), grads.unsqueeze(2), weight.unsqueeze(2)
        padding, stride, dilation = (0, *padding), (1, *stride), (1, *dilation)
    return ConvContraction(
        inputs,
        grads,
        weight,
        stride=(stride[0], stride[1]),
        padding=(padding[0], padding[1]),
        dilation=(dilation[0], dilation[1]),
        groups=layer.groups,
    )


def _taps(start: int, count: int, step: int) -> slice:
    return slice(start, start + (count - 1) * step + 1, step)
