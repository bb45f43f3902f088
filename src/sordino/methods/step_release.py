"""Noisy steps inside one client: how a batch is drawn, and what each mechanism bounds and releases of it.

`PoissonSteps` is what a job gets: it draws the batch at the charged rate and computes its clipped gradients. Behind it a
`BatchRelease`, one for each kind of mechanism, bounds what is released and makes one gradient of the noisy values.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import partial
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor

from sordino.core import Private
from sordino.data.examples import Examples
from sordino.gradients import ClippedGradients, ClippedSum
from sordino.methods.anchors import Subspace, layer_groups, power_method
from sordino.methods.method import ClientContext
from sordino.models import draw_dropout_from
from sordino.privacy.adaptive_clip import COUNT, AdaptiveClip
from sordino.privacy.clipping import Clip, bound_clipped, clip_factors, count_norms_within
from sordino.privacy.gep import RESIDUAL, Gep
from sordino.privacy.samplers import poisson_batch
from sordino.privacy.streams import stream_id

if TYPE_CHECKING:
    from sordino.privacy.coins import Coins
    from sordino.privacy.door import Permit
    from sordino.privacy.mechanisms import Mechanism, Part


class BatchRelease(Protocol):
    """What a mechanism makes of one batch: a noisy sum of gradients, through the door."""

    @property
    def clip(self) -> Clip: ...

    def noisy_sum(
        self, gradients: ClippedGradients, batch: Private[Examples], *, units: int, context: ClientContext, step: int
    ) -> Tensor: ...


class PoissonSteps:
    """The noisy steps of one client's turn, as a job sees them.

    Formal guarantee: every step's batch is drawn here, afresh, with the rate that was charged; gradients are clipped
    example by example here too. A job that asks for a sum chooses the model and nothing else.
    """

    __slots__ = ("__coins", "__context", "__data", "__gradients", "__rate", "__release", "__step")

    def __init__(
        self,
        release: BatchRelease,
        data: Private[Examples],
        context: ClientContext,
        *,
        rate: float,
        coins: Coins,
        chunk: int | None,
    ) -> None:
        """`data` are the client's rows, of which `rate` enter a batch on average; `chunk` of a batch are in memory at once."""
        clip = release.clip
        self.__release, self.__data, self.__context = release, data, context
        self.__rate, self.__coins = rate, coins
        self.__step = 0
        self.__gradients = ClippedGradients(
            context.net,
            trainable=context.space.names,
            groups=clip.groups or None,
            norm=clip.norm,
            microbatch=chunk,
        )
        draw_dropout_from(context.net, context.generator("dropout"))

    @property
    def clip(self) -> Clip:
        return self.__release.clip

    @property
    def expected_batch(self) -> float:
        return self.__rate * self.__context.size

    def noisy_sum(self, model: Tensor) -> Tensor:
        context, step = self.__context, self.__step
        self.__step += 1
        context.space.write(context.net, model)
        stream = stream_id("batch", context.round, context.client, step)
        rows = torch.from_numpy(poisson_batch(context.size, self.__rate, self.__coins, stream=stream))
        batch = self.__data.map(partial(Examples.take, indices=rows))
        return self.__release.noisy_sum(self.__gradients, batch, units=len(rows), context=context, step=step)


def step_release(
    mechanism: Mechanism,
    *,
    clip: Clip,
    permit: Permit,
    others: tuple[Part, ...],
    expected_units: float,
    anchors: Examples | None,
) -> BatchRelease:
    """The release that a mechanism makes in each step; `others` are the parts that were charged besides the sum."""
    if isinstance(mechanism, Gep):
        assert anchors is not None
        residual = dataclasses.replace(clip, bound=others[0].clip_bound)
        return Embedded(mechanism=mechanism, clip=clip, residual_clip=residual, permit=permit, anchors=anchors)
    if isinstance(mechanism, AdaptiveClip) and others:
        return FollowingClip(mechanism=mechanism, clip=clip, permit=permit, expected_units=expected_units)
    return ClippedRelease(clip=clip, permit=permit)


@dataclass(kw_only=True)
class ClippedRelease:
    """The sum of clipped gradients, noised."""

    clip: Clip
    permit: Permit

    def noisy_sum(
        self, gradients: ClippedGradients, batch: Private[Examples], *, units: int, context: ClientContext, step: int
    ) -> Tensor:
        found = batch.map(partial(_clipped_sum, gradients, clip=self.clip, device=context.device))
        return self.permit.release(bound_clipped(found, self.clip, units=units)).value


@dataclass(kw_only=True)
class FollowingClip:
    """The sum, and how many gradients were within the clip; the noisy count moves the clip for the next step."""

    mechanism: AdaptiveClip
    clip: Clip
    permit: Permit
    expected_units: float

    def noisy_sum(
        self, gradients: ClippedGradients, batch: Private[Examples], *, units: int, context: ClientContext, step: int
    ) -> Tensor:
        found = batch.map(partial(_clipped_sum, gradients, clip=self.clip, device=context.device))
        total = self.permit.release(bound_clipped(found, self.clip, units=units)).value
        norms = found.map(attrgetter("norms"))
        count = self.permit.release(count_norms_within(norms, self.clip, like=total), part=COUNT).value
        bound = self.mechanism.next_bound(self.clip.bound, float(count), self.expected_units)
        self.clip = dataclasses.replace(self.clip, bound=bound)
        return total


@dataclass(kw_only=True)
class Embedded:
    """Every gradient's embedding in the public subspace and its residual, both clipped, summed and noised, then put together.

    Formal guarantee: the subspace depends on public examples, on the released model and on streams that no data enter.
    """

    mechanism: Gep
    clip: Clip
    residual_clip: Clip
    permit: Permit
    anchors: Examples

    def noisy_sum(
        self, gradients: ClippedGradients, batch: Private[Examples], *, units: int, context: ClientContext, step: int
    ) -> Tensor:
        subspace = self._subspace(gradients, context, step)
        split = partial(_split_sums, gradients, subspace, clips=(self.clip, self.residual_clip), device=context.device)
        found = batch.map(split)
        embedding = self.permit.release(bound_clipped(found.map(itemgetter(0)), self.clip, units=units)).value
        rest = bound_clipped(found.map(itemgetter(1)), self.residual_clip, units=units)
        return subspace.lift(embedding) + self.permit.release(rest, part=RESIDUAL).value

    def _subspace(self, gradients: ClippedGradients, context: ClientContext, step: int) -> Subspace:
        device = context.device
        rows = gradients.per_example(self.anchors.features(device), self.anchors.labels.to(device))
        return power_method(
            torch.where(torch.isfinite(rows), rows, 0.0),
            layer_groups(context.space.sizes, self.mechanism.groups),
            basis=self.mechanism.basis,
            iterations=self.mechanism.power_iterations,
            generator=context.generator(f"subspace of step {step}"),
        )


@dataclass(frozen=True, kw_only=True)
class _Clipped:
    """A sum of contributions clipped one by one."""

    total: Tensor
    nonfinite: int


CHUNK = 64
"""Private gradients held whole at once."""


def _split_sums(
    gradients: ClippedGradients, subspace: Subspace, own: Examples, *, clips: tuple[Clip, Clip], device: torch.device
) -> tuple[_Clipped, _Clipped]:
    inside, outside = subspace.zeros()
    lost = 0
    for rows in torch.arange(len(own)).split(CHUNK) if len(own) else ():
        part = own.take(rows)
        each = gradients.per_example(part.features(device), part.labels.to(device))
        finite = torch.isfinite(each).all(1)
        lost += int((~finite).sum())
        each = torch.where(finite.unsqueeze(1), each, 0.0)
        embedding = subspace.embed(each)
        residual = each - subspace.lift(embedding)
        inside += clip_factors(embedding, clips[0]) @ embedding
        outside += clip_factors(residual, clips[1]) @ residual
    return _Clipped(total=inside, nonfinite=lost), _Clipped(total=outside, nonfinite=0)


def _clipped_sum(gradients: ClippedGradients, own: Examples, *, clip: Clip, device: torch.device) -> ClippedSum:
    return gradients.sum(own.features(device), own.labels.to(device), clip_norm=clip.bound)
