"""Noisy steps inside one client: how a batch is drawn, and how its gradients are shown to the mechanism."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import torch
from torch import Tensor

from sordino.core import Private, SordinoError
from sordino.data.examples import Examples
from sordino.gradients import ClippedGradients, ClippedSum
from sordino.gradients.losses import loss_per_example
from sordino.methods.context import ClientContext
from sordino.models import FlatSpace, draw_dropout_from
from sordino.privacy.clipping import Clip
from sordino.privacy.coins import Coins
from sordino.privacy.door import Permit
from sordino.privacy.mechanisms import Mechanism
from sordino.privacy.samplers import poisson_batch
from sordino.privacy.streams import stream_id

T = TypeVar("T")

CHUNK = 64
"""Private gradients held whole at once."""


class PoissonSteps:
    """The noisy steps of one client's turn, as a job sees them.

    Formal guarantee: every step's batch is drawn here, afresh, with the rate that was charged; gradients are clipped
    example by example here too. A job that asks for a sum chooses the model and nothing else.
    """

    __slots__ = (
        "__anchors",
        "__chunk",
        "__clip",
        "__coins",
        "__context",
        "__data",
        "__gradients",
        "__mechanism",
        "__parameters",
        "__permit",
        "__rate",
        "__step",
    )

    def __init__(
        self,
        data: Private[Examples],
        context: ClientContext,
        *,
        mechanism: Mechanism,
        permit: Permit,
        clip: Clip,
        rate: float,
        coins: Coins,
        chunk: int | None,
        anchors: Examples | None = None,
    ) -> None:
        """`data` are the client's rows, of which `rate` enter a batch on average; `chunk` of a batch are in memory at once.

        `anchors` are public examples, for mechanisms that need some.
        """
        self.__data, self.__context, self.__anchors = data, context, anchors
        self.__mechanism, self.__permit, self.__clip = mechanism, permit, clip
        self.__rate, self.__coins = rate, coins
        self.__step, self.__chunk = 0, chunk
        self.__parameters = context.space.parameters(context.net)
        self.__gradients: dict[tuple[str, ...], ClippedGradients] = {}
        self.__of(tuple(context.space.names))
        draw_dropout_from(context.net, context.generator("dropout"))

    def __of(self, names: tuple[str, ...]) -> ClippedGradients:
        """Gradients in these parameters, clipped example by example."""
        if names not in self.__gradients:
            self.__gradients[names] = ClippedGradients(
                self.__context.net,
                loss=loss_per_example,
                trainable=names,
                groups=self.__clip.groups or None,
                norm=self.__clip.norm,
                microbatch=self.__chunk,
            )
        return self.__gradients[names]

    @property
    def clip(self) -> Clip:
        return self.__clip

    @property
    def expected_batch(self) -> float:
        return self.__rate * self.__context.size

    def noisy_sum(self, model: Tensor, *, only: Sequence[str] | None = None) -> Tensor:
        context, step = self.__context, self.__step
        names = _in_order(context.space, only, self.__clip)
        self.__step += 1
        context.space.fill(self.__parameters, model)
        stream = stream_id("batch", context.round, context.client, step)
        rows = torch.from_numpy(poisson_batch(context.size, self.__rate, self.__coins, stream=stream))
        batch = StepBatch(
            rows=self.__data.map(partial(Examples.take, indices=rows)),
            units=len(rows),
            expected_units=self.expected_batch,
            gradients=self.__of(names),
            context=context,
            step=step,
            anchors=self.__anchors,
        )
        made = self.__mechanism.release_step(batch, clip=self.__clip, permit=self.__permit)
        self.__clip = made.clip
        return made.total


def _in_order(space: FlatSpace, only: Sequence[str] | None, clip: Clip) -> tuple[str, ...]:
    """The parameters of a step, in the order of the space."""
    if only is None:
        return tuple(space.names)
    names = tuple(name for name in space.names if name in set(only))
    if len(names) != len(only) or not names:
        raise SordinoError(
            f"noisy_sum takes the names of trained parameters, each once, but got {list(only)}; choose of {', '.join(space.names)}."
        )
    if clip.groups:
        raise SordinoError(
            "noisy_sum(only=...) needs gradients clipped as one, but this run clips them group by group."
        )
    return names


@dataclass(frozen=True, kw_only=True)
class StepBatch:
    """One batch at the model that the net holds now, as `privacy.batch.GradientBatch` describes it."""

    rows: Private[Examples]
    units: int
    expected_units: float
    gradients: ClippedGradients
    context: ClientContext
    step: int
    anchors: Examples | None

    @property
    def sizes(self) -> Sequence[int]:
        space, chosen = self.context.space, set(self.gradients.trainable)
        return [size for name, size in zip(space.names, space.sizes, strict=True) if name in chosen]

    def clipped_sum(self, clip: Clip) -> Private[ClippedSum]:
        device = self.context.device
        return self.rows.map(
            lambda own: self.gradients.sum(own.features(device), own.labels.to(device), clip_norm=clip.bound)
        )

    def over_gradients(self, function: Callable[[Iterator[Tensor]], T]) -> Private[T]:
        return self.rows.map(lambda own: function(self._each(own)))

    def public_gradients(self) -> Tensor:
        assert self.anchors is not None
        return self._per_example(self.anchors)

    def generator(self, purpose: str) -> torch.Generator:
        return self.context.generator(f"{purpose} of step {self.step}")

    def _each(self, own: Examples) -> Iterator[Tensor]:
        for rows in torch.arange(len(own)).split(CHUNK) if len(own) else ():
            yield self._per_example(own.take(rows))

    def _per_example(self, some: Examples) -> Tensor:
        device = self.context.device
        return self.gradients.per_example(some.features(device), some.labels.to(device))
