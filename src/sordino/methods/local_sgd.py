"""Plain SGD on one client, whole epochs or one full-batch step: the client work of the FedAvg family."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from sordino.data.examples import Examples
from sordino.gradients.losses import mean_loss
from sordino.gradients.sgd import Sgd
from sordino.methods.context import ClientContext
from sordino.models import draw_dropout_from
from sordino.settings import AtLeastOne, Momentum, NotNegative, Positive


@dataclass(frozen=True, kw_only=True)
class LocalSgd:
    """Client work: `epochs` over the client's rows in shuffled batches; with `full_batch`, one gradient step on all rows (FedSGD).

    `run` gives the update that is then clipped as one. Override `gradients` to change each step's gradient, `optimiser` to change
    the step, or `run` for other work altogether.

    Example:
        `sordino.methods.dp_fedprox.DpFedProx` adds a pull to every gradient.
    """

    epochs: AtLeastOne = 1
    batch_size: AtLeastOne = 32
    learning_rate: Positive = 0.1
    momentum: Momentum = 0.0
    weight_decay: NotNegative = 0.0
    full_batch: bool = False

    def orders(self, examples: int, generator: torch.Generator) -> Iterator[Tensor]:
        """All rows in the order of each pass. Every schedule draws it from the client's own generator, so all see the same."""
        for _ in range(self.passes):
            yield torch.arange(examples) if self.full_batch else torch.randperm(examples, generator=generator)

    def batches(self, order: Tensor) -> tuple[Tensor, ...]:
        """The rows of each step of a pass."""
        steps: tuple[Tensor, ...] = order.split(self.workload(len(order))[0])
        return steps

    @property
    def passes(self) -> int:
        return 1 if self.full_batch else self.epochs

    def workload(self, examples: int) -> tuple[int, int]:
        if self.full_batch:
            return examples, 1
        return min(self.batch_size, examples), self.epochs * -(-examples // self.batch_size)

    def stacked(self) -> LocalSgd | None:
        """The plain SGD that does this very work, if any: only such work can be done for many clients at once.

        Formal guarantee: where a subclass changes anything that the work is made of, the answer is None and clients run
        this job itself. Whoever overrides this says that the answer computes what `run` does.
        """
        return self.plain() if _works_as_plain_sgd(self) else None

    def plain(self) -> LocalSgd:
        """Plain SGD with the same settings."""
        return LocalSgd(**{name: getattr(self, name) for name in LOCAL_SETTINGS})

    @property
    def optimiser(self) -> Sgd:
        return Sgd(momentum=self.momentum, weight_decay=self.weight_decay)

    def run(self, start: Tensor, examples: Examples, context: ClientContext) -> Tensor:
        """The client's update: where training from `start` ended, less `start`."""
        net, space = context.net, context.space
        space.write(net, start)
        parameters = space.parameters(net)
        self.descend(parameters, self.gradients(parameters, examples, context))
        return space.read(net) - start

    def gradients(
        self, parameters: Sequence[Tensor], examples: Examples, context: ClientContext
    ) -> Iterator[list[Tensor]]:
        """The gradient of each step in turn, at the values that the parameters have when it is asked for."""
        features, labels = examples.features(context.device), examples.labels.to(context.device)
        draw_dropout_from(context.net, context.generator("dropout"))
        return self.gradients_of(context.net, parameters, features, labels, context.generator("batches"))

    def gradients_of(
        self,
        module: nn.Module,
        parameters: Sequence[Tensor],
        features: Tensor,
        labels: Tensor,
        batches: torch.Generator,
    ) -> Iterator[list[Tensor]]:
        for order in self.orders(len(labels), batches):
            for rows in self.batches(order):
                loss = mean_loss(module(features[rows]), labels[rows])
                yield list(torch.autograd.grad(loss, parameters))

    def descend(self, parameters: list[Tensor], gradients: Iterator[list[Tensor]]) -> None:
        optimiser = self.optimiser
        velocities = optimiser.velocities(parameters)
        for gradient in gradients:
            optimiser.step(parameters, gradient, velocities, self.learning_rate)


LOCAL_SETTINGS = tuple(field.name for field in dataclasses.fields(LocalSgd))
_BESIDES_THE_WORK = {"plain", "stacked", *LOCAL_SETTINGS}


def _works_as_plain_sgd(job: LocalSgd) -> bool:
    """Whether every function that the work is made of is `LocalSgd`'s own, and every setting a stored value."""
    kind, own = type(job), vars(job)
    work = {name for name in vars(LocalSgd) if not name.startswith("__")} - _BESIDES_THE_WORK
    return (
        kind.__getattribute__ is object.__getattribute__
        and all(inspect.getattr_static(kind, name) is vars(LocalSgd)[name] for name in work)
        and work.isdisjoint(own)
        and all(name in own and not _computed(kind, name) for name in LOCAL_SETTINGS)
    )


def _computed(kind: type, name: str) -> bool:
    return hasattr(inspect.getattr_static(kind, name, None), "__get__")
