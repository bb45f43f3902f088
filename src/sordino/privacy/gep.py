"""GEP: gradients split into a part inside a public subspace and a small rest (arXiv:2102.12677)."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import torch

from sordino.core import SordinoError
from sordino.privacy.batch import GradientBatch, Step
from sordino.privacy.clipping import Clip, bound_clipped, clip_factors
from sordino.privacy.mechanisms import MECHANISMS, UPDATE, Gaussian, Part, PublicExamples
from sordino.privacy.subspace import Group, Subspace, layer_groups, power_method
from sordino.settings import AtLeastOne, Scale

if TYPE_CHECKING:
    from torch import Tensor

    from sordino.privacy.door import Permit

RESIDUAL = "residual"
RESIDUAL_SHARE = 0.4
"""The authors clip embeddings at 5 and residuals at 2."""


@MECHANISMS.register("gep")
@dataclass(frozen=True, kw_only=True)
class Gep(Gaussian):
    """Gaussian, on each gradient's embedding in a subspace of public gradients and on its residual (GEP).

    Formal guarantee: the subspace is made of public examples and the released model alone. Every private gradient gives an
    embedding clipped to the run's clip norm and a residual clipped to its own; both sums are noised with the same multiplier
    z, and are one joint release of multiplier z/√2.
    """

    public: dict[str, Any] = field(default_factory=dict)
    """A data source marked public, whose gradients span the subspace."""
    anchors: AtLeastOne = 128
    """Public examples used."""
    basis: AtLeastOne = 16
    """Dimensions of the subspace, for each group of layers or for all together: see `directions`."""
    directions: Literal["each", "by-size"] = "each"
    """Whether every group has as many as `basis` says, or all share them in proportion to the root of their sizes, as the authors do."""
    groups: AtLeastOne = 1
    power_iterations: AtLeastOne = 2
    residual_clip_norm: Scale | None = None

    clips_as_one: ClassVar[bool] = True
    not_for_clients: ClassVar[str] = (
        "its subspace is spanned by gradients of single public examples, and updates of whole clients are not such gradients"
    )

    def __post_init__(self) -> None:
        if not self.public:
            raise SordinoError(
                "Mechanism 'gep' needs public examples to span its subspace, but got none; "
                "set [privacy] mechanism = { name = 'gep', public = { source = ..., visibility = 'public' } }."
            )
        if self.basis > self.anchors:
            raise SordinoError(
                f"{self.anchors} anchors span at most as many dimensions, but [privacy] mechanism asks for a basis of "
                f"{self.basis}; raise anchors or lower basis."
            )

    def parts(self, noise_multiplier: float, *, bound: float, stage: int, expected_units: float) -> tuple[Part, ...]:
        rest = RESIDUAL_SHARE * bound if self.residual_clip_norm is None else self.residual_clip_norm
        return (
            Part(name=UPDATE, clip_bound=bound, noise_multiplier=noise_multiplier),
            Part(name=RESIDUAL, clip_bound=rest, noise_multiplier=noise_multiplier),
        )

    def public_examples(self) -> PublicExamples:
        return PublicExamples(source=self.public, count=self.anchors)

    def release_step(self, batch: GradientBatch, *, clip: Clip, permit: Permit) -> Step:
        """Every gradient's embedding in the public subspace and its residual, both clipped, summed and noised, then put together."""
        charged = permit.charged(RESIDUAL)
        assert charged is not None
        rest = dataclasses.replace(clip, bound=charged.clip_bound)
        subspace = self._subspace(batch)
        found = batch.over_gradients(partial(_split_sums, subspace=subspace, clips=(clip, rest)))
        embedding = permit.release(bound_clipped(found.map(itemgetter(0)), clip, units=batch.units)).value
        residual = permit.release(bound_clipped(found.map(itemgetter(1)), rest, units=batch.units), part=RESIDUAL)
        return Step(total=subspace.lift(embedding) + residual.value, clip=clip)

    def _subspace(self, batch: GradientBatch) -> Subspace:
        rows, groups = batch.public_gradients(), layer_groups(batch.sizes, self.groups)
        return power_method(
            torch.where(torch.isfinite(rows), rows, 0.0),
            groups,
            bases=self._bases(groups),
            iterations=self.power_iterations,
            generator=batch.generator("subspace"),
        )

    def _bases(self, groups: Sequence[Group]) -> list[int]:
        """How many directions each group has."""
        if self.directions == "each":
            return [self.basis] * len(groups)
        roots = [math.sqrt(stop - start) for start, stop in groups]
        return [max(1, int(self.basis * root / sum(roots))) for root in roots]


@dataclass(frozen=True, kw_only=True)
class _Clipped:
    """A sum of contributions clipped one by one."""

    total: Tensor
    nonfinite: int


def _split_sums(
    gradients: Iterator[Tensor], *, subspace: Subspace, clips: tuple[Clip, Clip]
) -> tuple[_Clipped, _Clipped]:
    inside, outside = subspace.zeros()
    lost = 0
    for rows in gradients:
        finite = torch.isfinite(rows).all(1)
        lost += int((~finite).sum())
        each = torch.where(finite.unsqueeze(1), rows, 0.0)
        embedding = subspace.embed(each)
        residual = each - subspace.lift(embedding)
        inside += clip_factors(embedding, clips[0]) @ embedding
        outside += clip_factors(residual, clips[1]) @ residual
    return _Clipped(total=inside, nonfinite=lost), _Clipped(total=outside, nonfinite=0)
