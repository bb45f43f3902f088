"""GEP: gradients split into a part inside a public subspace and a small rest (arXiv:2102.12677)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from sordino.core import SordinoError
from sordino.privacy.mechanisms import MECHANISMS, UPDATE, Gaussian, Part
from sordino.settings import AtLeastOne, Positive

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
    """Dimensions of the subspace, for each group of layers."""
    groups: AtLeastOne = 1
    power_iterations: AtLeastOne = 2
    residual_clip_norm: Positive | None = None

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
