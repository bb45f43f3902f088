"""LSTMs: each step is a dense layer of its input and of the state before it, so a weight's gradient is a sum over steps.

torch's own LSTM tells the gradient of what it said, and not of its gates. So the text is read once more here, with the gates kept, and
their slopes follow step by step from the last to the first, for all examples at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from sordino.gradients.layers.booking import Booking, Capture, Request
from sordino.gradients.layers.linear import book_sequence

NUMBERS_KEPT = 16
"""Numbers a layer keeps in a step for each that it says: gates, slopes and what leads from one to the other."""


def has_lstm_rule(layer: nn.LSTM) -> bool:
    """Whether it reads in one direction, batches first, and draws nothing between its layers."""
    dropout = layer.training and layer.num_layers > 1 and layer.dropout > 0
    return layer.batch_first and not layer.bidirectional and not layer.proj_size and not dropout


@torch.no_grad()
def book_lstm(capture: Capture, grads: Tensor, request: Request) -> dict[str, Booking]:
    layer = capture.layer
    assert isinstance(layer, nn.LSTM)
    readings = _read(layer, capture.inputs)
    bookings: dict[str, Booking] = {}
    for depth in reversed(range(layer.num_layers)):
        reading = readings[depth]
        slopes = reading.slopes(_weight(layer, "hh", depth), grads.transpose(0, 1)).transpose(0, 1)
        for side, inputs in (("ih", reading.inputs), ("hh", reading.before)):
            names = {"weight": f"weight_{side}_l{depth}", "bias": f"bias_{side}_l{depth}"}
            wanted = frozenset(kind for kind, name in names.items() if name in request.wanted)
            asked = Request(wanted=wanted, norm=request.norm, whole_rows=request.whole_rows)
            booked = book_sequence(inputs, slopes, asked)
            bookings |= {names[kind]: booking for kind, booking in booked.items()}
        grads = slopes @ _weight(layer, "ih", depth)
    return bookings


@dataclass(frozen=True, kw_only=True)
class _Reading:
    """What one layer read and said: `inputs` and `before` have examples first, all else has steps first."""

    inputs: Tensor
    before: Tensor
    """What it had said one step earlier; nothing, before the first."""
    said: Tensor
    gates: Tensor
    """(steps, examples, 4, width), in torch's order: in, forget, new, out."""
    cells: Tensor
    """One more than there are steps: the first is empty."""

    def slopes(self, recurrent: Tensor, grads: Tensor) -> Tensor:
        """The loss by every gate before it was squashed, given the loss by what was said, apart from what that led to later."""
        into, forget, new, out = self.gates.unbind(2)
        seen = self.cells[1:].tanh()
        led = torch.stack([new, self.cells[:-1], into, seen], dim=2).mul_(_squashed(self.gates))
        through = (1 - seen.square()).mul_(out)
        slopes, later = torch.empty_like(self.gates), torch.zeros_like(into[0])
        asked = grads[-1]
        for step in reversed(range(len(self.gates))):
            cell = torch.addcmul(later, asked, through[step])
            torch.mul(led[step, :, :3], cell.unsqueeze(1), out=slopes[step, :, :3])
            torch.mul(led[step, :, 3], asked, out=slopes[step, :, 3])
            later = cell.mul_(forget[step])
            if step:
                asked = torch.addmm(grads[step - 1], slopes[step].flatten(1), recurrent)
        return slopes.flatten(2)


def _squashed(gates: Tensor) -> Tensor:
    """The slope of sigmoid, or of tanh for what is new, from what came out of it."""
    slopes = gates * (1 - gates)
    slopes[:, :, 2] = 1 - gates[:, :, 2].square()
    return slopes


def _read(layer: nn.LSTM, inputs: Tensor) -> list[_Reading]:
    readings: list[_Reading] = []
    for depth in range(layer.num_layers):
        bias = _bias(layer, "ih", depth) + _bias(layer, "hh", depth) if layer.bias else None
        asked = linear(inputs.transpose(0, 1), _weight(layer, "ih", depth), bias)
        readings.append(_read_layer(inputs, asked, _weight(layer, "hh", depth).t()))
        inputs = readings[-1].said.transpose(0, 1)
    return readings


def _read_layer(inputs: Tensor, asked: Tensor, recurrent: Tensor) -> _Reading:
    """One layer, given what its inputs ask of the gates, to which the state before adds."""
    steps, batch, width = asked.shape[0], asked.shape[1], asked.shape[2] // 4
    gates = asked.new_empty(steps, batch, 4, width)
    cells, said = asked.new_zeros(steps + 1, batch, width), asked.new_zeros(steps + 1, batch, width)
    for step in range(steps):
        now = gates[step]
        torch.addmm(asked[step], said[step], recurrent, out=now.view(batch, -1))
        now[:, :2].sigmoid_(), now[:, 2].tanh_(), now[:, 3].sigmoid_()
        torch.addcmul(now[:, 1] * cells[step], now[:, 0], now[:, 2], out=cells[step + 1])
        torch.mul(now[:, 3], cells[step + 1].tanh(), out=said[step + 1])
    return _Reading(inputs=inputs, before=said[:-1].transpose(0, 1), said=said[1:], gates=gates, cells=cells)


def _weight(layer: nn.LSTM, side: str, depth: int) -> Tensor:
    return layer.get_parameter(f"weight_{side}_l{depth}").detach()


def _bias(layer: nn.LSTM, side: str, depth: int) -> Tensor:
    return layer.get_parameter(f"bias_{side}_l{depth}").detach()
