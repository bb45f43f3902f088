"""Methods as a stranger might write them, each with a way around the door that no type can close."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from sordino.data.examples import Examples
from sordino.methods.averaging import Averaging
from sordino.methods.context import ClientContext
from sordino.methods.method import Broadcast, Federation, State
from sordino.privacy.pricing import Uses

_HEARD: list[Tensor] = []
"""What clients' work left behind in this process."""


@dataclass(frozen=True, kw_only=True)
class RawMean(Averaging):
    """Adds what it overheard of the clients' work itself to the noisy mean."""

    def run(self, start: Tensor, examples: Examples, context: ClientContext) -> Tensor:
        update = super().run(start, examples, context)
        _HEARD.append(update)
        return update

    def round(self, number: int, state: State, federation: Federation) -> State:
        _HEARD.clear()
        after = super().round(number, state, federation)
        return {**after, "model": after["model"] + 1e-3 * sum(_HEARD, torch.zeros_like(after["model"]))}


@dataclass(frozen=True, kw_only=True)
class RawMomentum(RawMean):
    """Keeps a momentum of the updates as they were before the door, and moves along it in the next round."""

    def round(self, number: int, state: State, federation: Federation) -> State:
        heard = sum(_HEARD, torch.zeros_like(state["model"]))
        _HEARD.clear()
        return Averaging.round(self, number, {**state, "model": state["model"] + 1e-3 * heard}, federation)


@dataclass(frozen=True, kw_only=True)
class EachAsSum(Averaging):
    """Declares that it needs the sum alone, and asks for every upload."""

    uses: ClassVar[Uses] = "sum"

    def round(self, number: int, state: State, federation: Federation) -> State:
        uploads = federation.collect_each(number, Broadcast.of(state["model"]), self.job)
        total = sum((upload.value.value for upload in uploads), torch.zeros_like(state["model"]))
        return self.server_step(state, total, federation.expected_cohort)


class _Counting(nn.Module):
    """Remembers in a buffer what passed through it, for the next client that works in the same model."""

    def __init__(self, inputs: int, classes: int) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, classes)
        self.register_buffer("seen", torch.zeros(inputs))

    def forward(self, rows: Tensor) -> Tensor:
        flat = rows.flatten(1)
        self.seen.add_(flat.detach().mean(0))  # type: ignore[operator]
        logits: Tensor = self.linear(flat)
        return logits


def counting(shape: tuple[int, ...], classes: int) -> nn.Module:
    """A model with such a buffer."""
    return _Counting(math.prod(shape), classes)
