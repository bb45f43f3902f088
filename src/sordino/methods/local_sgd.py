"""Plain SGD on one client, whole epochs or one full-batch step: the client work of the FedAvg family."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from sordino.data.examples import Examples
from sordino.gradients.sgd import Sgd
from sordino.methods.method import ClientContext
from sordino.models import draw_dropout_from
from sordino.settings import AtLeastOne, Momentum, NotNegative, Positive


@dataclass(frozen=True, kw_only=True)
class LocalSgd:
    """`epochs` over the client's rows in shuffled batches; with `full_batch`, one gradient step on all rows (FedSGD)."""

    epochs: AtLeastOne = 1
    batch_size: AtLeastOne = 32
    learning_rate: Positive = 0.1
    momentum: Momentum = 0.0
    weight_decay: NotNegative = 0.0
    full_batch: bool = False

    def batches(self, examples: int, generator: torch.Generator) -> Iterator[Tensor]:
        """The rows of each step. Every schedule draws them from the client's own generator, so all see the same batches."""
        if self.full_batch:
            yield torch.arange(examples)
            return
        for _ in range(self.epochs):
            yield from torch.randperm(examples, generator=generator).split(self.batch_size)

    def workload(self, examples: int) -> tuple[int, int]:
        if self.full_batch:
            return examples, 1
        return min(self.batch_size, examples), self.epochs * -(-examples // self.batch_size)

    def plan_facts(self, rounds: int) -> dict[str, str]:
        return {}

    @property
    def optimiser(self) -> Sgd:
        return Sgd(momentum=self.momentum, weight_decay=self.weight_decay)

    def run(self, start: Tensor, examples: Examples, context: ClientContext) -> Tensor:
        net, space, optimiser = context.net, context.space, self.optimiser
        space.write(net, start)
        trained = set(space.names)
        parameters: list[Tensor] = [parameter for name, parameter in net.named_parameters() if name in trained]
        velocities = optimiser.velocities(parameters)
        features, labels = examples.features(context.device), examples.labels.to(context.device)
        draw_dropout_from(net, context.generator("dropout"))
        for rows in self.batches(len(examples), context.generator("batches")):
            loss = cross_entropy(net(features[rows]), labels[rows])
            optimiser.step(parameters, list(torch.autograd.grad(loss, parameters)), velocities, self.learning_rate)
        return space.read(net) - start
