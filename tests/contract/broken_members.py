"""Members as a stranger would write them, on every axis but that of methods, each with one fault that a check must find."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import nn

from sordino.data.partition import Partition
from sordino.data.partition.iid import Iid
from sordino.methods import Method
from sordino.models import Net
from sordino.models.mlp import Mlp
from sordino.pretrain.scratch import Scratch
from sordino.privacy.event_kinds import GaussianDpEvent, PoissonSampledDpEvent
from sordino.privacy.mechanisms import Gaussian
from sordino.privacy.samplers import Everyone, Poisson
from sordino.tuning.full import Full
from sordino.tuning.unified import Unified

setting = dataclass(frozen=True, kw_only=True)


@setting
class Nothing:
    """Inherits no base, and is no part of any axis."""


@setting
class Jobless(Method):
    """Does not say what its clients do."""

    unit: ClassVar = "client"
    uses: ClassVar = "sum"

    def round(self, number, state, federation):
        return state


@setting
class LessNoise(Gaussian):
    def draw(self, source, like, wanted):
        return super().draw(source, like, dataclasses.replace(wanted, scale=0.9 * wanted.scale))


@setting
class OneStream(Gaussian):
    def draw(self, source, like, wanted):
        return super().draw(source, like, dataclasses.replace(wanted, stream=0))


@setting
class CheaperEvent(Gaussian):
    def event(self, noise_multiplier):
        return GaussianDpEvent(2 * noise_multiplier)


@setting
class WiderPart(Gaussian):
    def parts(self, noise_multiplier, *, bound, stage, expected_units):
        return super().parts(noise_multiplier, bound=2 * bound, stage=stage, expected_units=expected_units)


@setting
class OftenDrawn(Poisson):
    """Charged at the rate, drawn at twice the rate."""

    def draw(self, round_number, source):
        coins = source.uniform(self.clients, stream=round_number).numpy()
        return np.flatnonzero(coins < 2 * self.rate)


@setting
class AlwaysDrawn(Everyone):
    """Draws everyone, and says that it sampled."""

    def event(self, inner):
        return PoissonSampledDpEvent(0.1, inner)


@setting
class Unordered(Everyone):
    def draw(self, round_number, source):
        return super().draw(round_number, source)[::-1]


@setting
class BatchNormed(Mlp):
    def build(self, inputs, classes):
        net = super().build(inputs, classes)
        return Net(body=nn.Sequential(net.body, nn.BatchNorm1d(net.head.in_features)), head=net.head)


class Remembering(nn.Linear):
    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.register_buffer("last", torch.zeros(()))

    def forward(self, inputs):
        self.last += inputs.detach().mean()
        return super().forward(inputs)


@setting
class WithMemory(Mlp):
    def build(self, inputs, classes):
        net = super().build(inputs, classes)
        return Net(body=net.body, head=Remembering(net.head.in_features, classes))


class ImagesWithMemory(nn.Module):
    """Takes images alone, and remembers them."""

    def __init__(self, shape, classes):
        super().__init__()
        channels, height, width = shape
        self.layers = nn.Sequential(nn.Flatten(), Remembering(channels * height * width, classes))

    def forward(self, inputs):
        return self.layers(inputs)


@setting
class NoParts(Mlp):
    def build(self, inputs, classes):
        return nn.Sequential(nn.Flatten(), nn.Linear(inputs.numbers("no-parts"), classes))


@setting
class OneLogitTooMany(Mlp):
    def build(self, inputs, classes):
        return super().build(inputs, classes + 1)


@setting
class RowsTwice(Iid):
    def split(self, labels, column, *, clients, rng):
        found = super().split(labels, column, clients=clients, rng=rng)
        return Partition(np.where(found.indices == 0, 1, found.indices), found.offsets)


@setting
class OwnCoins(Iid):
    def split(self, labels, column, *, clients, rng):
        return super().split(labels, column, clients=clients, rng=np.random.default_rng())


@setting
class NoSuchParameter(Full):
    def trainable(self, net):
        return [*super().trainable(net), "tail.weight"]


@setting
class Backwards(Unified):
    """Trains everything first, and the head alone later on."""

    def phases(self, net, rounds):
        first, last = super().phases(net, rounds)
        return (
            type(first)(first_round=0, trainable=last.trainable),
            type(last)(first_round=last.first_round, trainable=first.trainable),
        )


@setting
class DrawnAnew(Scratch):
    def prepare(self, net, context):
        for parameter in net.parameters():
            nn.init.normal_(parameter)
