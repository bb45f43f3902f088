"""Start from ordinary training on public data."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from sordino.core import SordinoError
from sordino.data.source import Source, SourceSettings, load
from sordino.gradients.sgd import Sgd
from sordino.models import Net, draw_dropout_from
from sordino.pretrain.start import STARTS, StartContext
from sordino.privacy.streams import stream_id
from sordino.settings import AtLeastOne, Momentum, NotNegative, Positive, validated


@STARTS.register("standard")
@dataclass(frozen=True, kw_only=True)
class Standard:
    """SGD with momentum and a cosine schedule on a data set marked public, resized to the pictures of the private one."""

    data: dict[str, Any]
    epochs: AtLeastOne = 20
    batch_size: AtLeastOne = 64
    learning_rate: Positive = 0.05
    momentum: Momentum = 0.9
    weight_decay: NotNegative = 1e-4

    def prepare(self, net: Net, context: StartContext) -> None:
        source = public_source(self.data, context)
        net.to(context.device).train()
        parameters: list[Tensor] = list(net.parameters())
        optimiser = Sgd(momentum=self.momentum, weight_decay=self.weight_decay)
        velocities = optimiser.velocities(parameters)
        generator = torch.Generator().manual_seed(stream_id("pretrain", context.seed))
        draw_dropout_from(net, generator)
        features, labels = source.train.features(context.device), source.train.labels.to(context.device)
        batches = [
            rows
            for _ in range(self.epochs)
            for rows in torch.randperm(len(labels), generator=generator).split(self.batch_size)
        ]
        for done, rows in enumerate(batches):
            loss = cross_entropy(net(features[rows]), labels[rows])
            rate = self.learning_rate * (1 + math.cos(math.pi * done / len(batches))) / 2
            optimiser.step(parameters, list(torch.autograd.grad(loss, parameters)), velocities, rate)
            context.progress(done + 1, len(batches))


def public_source(table: dict[str, Any], context: StartContext) -> Source:
    """Load what the person marked public, in the shape of the private data; anything else is refused."""
    fitted = dict(table)
    if len(context.shape) == 3:
        fitted.setdefault("resize", context.shape[-1])
        fitted.setdefault("channels", context.shape[0])
    settings = validated(SourceSettings, fitted, where="start.data")
    if settings.visibility != "public":
        raise SordinoError(
            f"Pre-training needs data marked public, but {settings.source!r} is marked {settings.visibility}; only public data are free."
        )
    source = load(settings, seed=context.seed)
    if source.classes > context.classes:
        raise SordinoError(
            f"The public set {source.name!r} has {source.classes} classes, but the model's head has {context.classes}; "
            "choose a set with as many classes or fewer."
        )
    return source
