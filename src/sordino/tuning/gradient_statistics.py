"""Numbers about one client's clipped gradients at public weights, each with the most that one of its rows can move it.

A client holds d rows (public). Row k's gradient g_k is clipped to norm ξ; in L1 or L2, ‖g_k‖₂ ≤ ξ. Their mean is ḡ = Σ g_k / d.
A Poisson batch at rate q has the gradient Σ_batch g_k / (q·d); full batches have q = 1. Over the draw,

    E‖batch gradient‖² = ‖ḡ‖² + V,    E‖batch gradient − ḡ‖² = V,    V = (1 − q) / (q·d²) · Σ ‖g_k‖²,

so no batch has to be drawn to know them. When a row contributes nothing, ḡ moves by at most ξ/d; when it is replaced, by at
most 2ξ/d. Every bound below is stated for the first and holds doubled for the second.

Over several iterations a client steps along its own clipped mean gradients, as the paper has it, and the numbers are averaged. The first
point is public; all later ones follow the rows, so that one row may move every number there by its whole range, and is charged so.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

from sordino.core import Norm
from sordino.data.examples import Examples
from sordino.gradients import ClippedGradients
from sordino.gradients.losses import loss_per_example
from sordino.methods.context import ClientContext
from sordino.methods.noisy_sgd import NoisySgd
from sordino.models import FlatSpace, Net
from sordino.privacy.clipping import Clip, StatisticBound

StatisticName = Literal["G1²", "G2²", "Λ1²", "Λ2²", "L"]


@dataclass(frozen=True, kw_only=True)
class Measure:
    """What is public about how one client is measured."""

    rows: int
    rate: float
    clip: Clip
    largest_gradient: float
    """The longest mean gradient that is told apart: ‖ḡ‖ counts up to here."""
    probe_radius: float
    iterations: int = 1
    """Points over which moments and variances are averaged: the first is public, the others follow the client's own steps."""
    pace: float = 0.0
    """How far a step goes from one point to the next."""

    def bound(self, name: str) -> StatisticBound:
        if name in ("G1²", "G2²"):
            return self._averaged(self._second_moment())
        return self._averaged(self._variance()) if name in ("Λ1²", "Λ2²") else self._smoothness()

    def _averaged(self, one: StatisticBound) -> StatisticBound:
        """Of the mean over all points: one row moves the number by `one.moves` at the first, by up to its range at each other."""
        moves = (one.moves + (self.iterations - 1) * one.largest) / self.iterations
        return StatisticBound(largest=one.largest, moves=min(moves, one.largest))

    @property
    def batch_variance_factor(self) -> float:
        return (1 - self.rate) / (self.rate * self.rows**2)

    def _second_moment(self) -> StatisticBound:
        """Of G² = min(‖ḡ‖, R)² + V, with R the largest gradient.

        |a² − b²| = |a − b|·(a + b), where a and b, the capped lengths before and after, differ by at most ξ/d and sum to at most
        2R: the first part moves by at most 2ξR/d (replaced: 4ξR/d, which is 4ξ²/d for R = ξ). V loses one ‖g_k‖² ≤ ξ².
        """
        reach = min(self.largest_gradient, self.clip.bound)
        variance = self._variance()
        return StatisticBound(
            largest=reach**2 + variance.largest, moves=2 * self.clip.bound * reach / self.rows + variance.moves
        )

    def _variance(self) -> StatisticBound:
        """Of Λ² = V: one of the d summands, each within [0, ξ²], changes. Full batches have none, and a bound of next to nothing."""
        moves = max(self.batch_variance_factor * self.clip.bound**2, 1e-300)
        return StatisticBound(largest=moves * self.rows, moves=moves)

    def _smoothness(self) -> StatisticBound:
        """Of L = ‖ḡ(θ + u) − ḡ(θ)‖ / ‖u‖ for a public step u of length r.

        Each of the two means moves by at most ξ/d, so their difference, and with it its length, by at most 2ξ/d.
        """
        return StatisticBound(
            largest=2 * self.clip.bound / self.probe_radius,
            moves=2 * self.clip.bound / (self.rows * self.probe_radius),
        )


@dataclass(frozen=True, kw_only=True)
class Subject:
    """Where gradients are taken: a model at public weights, its head's parameters, and the memory that may be used."""

    net: Net
    space: FlatSpace
    start: Tensor
    head: Sequence[str]
    chunk: int | None
    device: torch.device
    _made: dict[tuple[tuple[str, ...], Norm], ClippedGradients] = field(default_factory=dict, compare=False, repr=False)

    def gradients(self, parameters: Sequence[str], norm: Norm) -> ClippedGradients:
        """Clipped gradients in these parameters; the model is looked through once for each."""
        key = (tuple(parameters), norm)
        if key not in self._made:
            self._made[key] = ClippedGradients(
                self.net, trainable=parameters, norm=norm, microbatch=self.chunk, loss=loss_per_example
            )
        return self._made[key]


def measure(own: Examples, names: Sequence[str], subject: Subject, public: Measure) -> dict[str, float]:
    """The numbers asked for, of one client's rows; they are as private as the rows."""
    found: dict[str, float] = {}
    for mark, parameters in {"1": subject.head, "2": subject.space.names}.items():
        if not {f"G{mark}²", f"Λ{mark}²"} & set(names):
            continue
        moments, variances = zip(*_along_own_steps(own, subject, parameters, public), strict=True)
        found[f"G{mark}²"], found[f"Λ{mark}²"] = statistics.fmean(moments), statistics.fmean(variances)
    if "L" in names:
        subject.space.write(subject.net, subject.start)
        here = _mean(own, subject, subject.space.names, public)
        step = probe(subject.space.size, public.probe_radius).to(subject.start)
        subject.space.write(subject.net, subject.start + step)
        found["L"] = float((_mean(own, subject, subject.space.names, public) - here).norm()) / public.probe_radius
    return found


def _along_own_steps(
    own: Examples, subject: Subject, parameters: Sequence[str], public: Measure
) -> Iterator[tuple[float, float]]:
    """Second moment and variance at each point, from the public weights on, of steps in these parameters."""
    subject.space.write(subject.net, subject.start)
    moved = FlatSpace(subject.net, parameters)
    for number in range(public.iterations):
        mean = _mean(own, subject, parameters, public)
        full = public.rate >= 1
        variance = 0.0 if full else public.batch_variance_factor * _squares(own, subject, parameters, public)
        yield min(float(mean.norm()), public.largest_gradient) ** 2 + variance, variance
        if number + 1 < public.iterations:
            moved.write(subject.net, moved.read(subject.net) - public.pace * mean.to(subject.start))


def probe(size: int, radius: float) -> Tensor:
    """A public step of this length, in the same direction for everybody."""
    direction = torch.randn(size, generator=torch.Generator().manual_seed(0))
    step: Tensor = radius * direction / direction.norm()
    return step


def _mean(own: Examples, subject: Subject, parameters: Sequence[str], public: Measure) -> Tensor:
    """ḡ on some of the parameters, in double precision."""
    clipped = subject.gradients(parameters, public.clip.norm)
    total = torch.zeros(clipped.size, dtype=torch.float64, device=subject.device)
    for part in _chunks(own, subject.chunk):
        total += clipped.sum(
            part.features(subject.device), part.labels.to(subject.device), clip_norm=public.clip.bound
        ).total
    return total / public.rows


def _squares(own: Examples, subject: Subject, parameters: Sequence[str], public: Measure) -> float:
    """Σ ‖g_k‖₂² of the clipped gradients: an L1 clip scales a row by ξ/‖g‖₁, and its L2 length with it."""
    norms_needed: set[Norm] = {"l2", public.clip.norm}
    by_norm = {norm: subject.gradients(parameters, norm) for norm in norms_needed}
    squares = 0.0
    for part in _chunks(own, subject.chunk):
        features, labels = part.features(subject.device), part.labels.to(subject.device)
        norms = {
            norm: clipped.sum(features, labels, clip_norm=public.clip.bound).norms.double()
            for norm, clipped in by_norm.items()
        }
        kept = (public.clip.bound / norms[public.clip.norm]).clamp(max=1) * norms["l2"]
        squares += float(kept.nan_to_num(0.0, 0.0, 0.0).square().sum())
    return squares


def _chunks(own: Examples, size: int | None) -> list[Examples]:
    return [own.take(rows) for rows in torch.arange(len(own)).split(size or max(1, len(own)))] if len(own) else []


@dataclass(frozen=True, kw_only=True)
class GradientSurvey:
    """These numbers as every client is asked for them."""

    names: Sequence[str]
    noise_multiplier: float
    steps: NoisySgd
    clip: Clip
    largest_gradient: float
    probe_radius: float
    head: Sequence[str]
    """The parameters of the head."""
    chunk: int
    """Rows whose gradients are held in memory at once."""
    iterations: int = 1
    pace: float = 0.0
    """How many points are averaged over, and how far the client's own steps go from one to the next."""

    def bound(self, name: str, size: int) -> StatisticBound:
        return self._public(size).bound(name)

    def measure(self, model: Tensor, examples: Examples, context: ClientContext) -> dict[str, float]:
        subject = Subject(
            net=context.net,
            space=context.space,
            start=model,
            head=self.head,
            chunk=self.chunk,
            device=context.device,
        )
        return measure(examples, self.names, subject, self._public(context.size))

    def _public(self, rows: int) -> Measure:
        return Measure(
            rows=rows,
            rate=self.steps.rate(rows),
            clip=self.clip,
            largest_gradient=self.largest_gradient,
            probe_radius=self.probe_radius,
            iterations=self.iterations,
            pace=self.pace,
        )


def noise_multiplier(*, epsilon: float, statistics: int, replace_one: bool) -> float:
    """The multiplier with which so many Laplace releases cost ε together, by plain composition."""
    return statistics * (2 if replace_one else 1) / epsilon
