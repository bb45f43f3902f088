"""Per-example clipped gradients: the fast core."""

from sordino.gradients.clipped import ClippedGradients, ClippedSum, SlowGradientsWarning
from sordino.gradients.losses import cross_entropy_per_example

__all__ = ["ClippedGradients", "ClippedSum", "SlowGradientsWarning", "cross_entropy_per_example"]
