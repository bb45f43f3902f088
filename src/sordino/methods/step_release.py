"""How each mechanism releases one batch inside a client: which values it bounds, and what it makes of the noisy ones."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import partial
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from sordino.core import Private
from sordino.data.examples import Examples
from sordino.methods.anchors import Subspace, layer_groups, power_method
from sordino.methods.method import ClientContext, StepRelease
from sordino.privacy.adaptive_clip import COUNT, AdaptiveClip
from sordino.privacy.clipping import Clip, bound_clipped, clip_factors, count_norms_within
from sordino.privacy.gep import RESIDUAL, Gep

if TYPE_CHECKING:
    from sordino.gradients import ClippedGradients, ClippedSum
    from sordino.privacy.door import Permit
    from sordino.privacy.mechanisms import Mechanism, Part


def step_release(
    mechanism: Mechanism,
    *,
    clip: Clip,
    permit: Permit,
    others: tuple[Part, ...],
    expected_units: float,
    anchors: Examples | None,
) -> StepRelease:
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
