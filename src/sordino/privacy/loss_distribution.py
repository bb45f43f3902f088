"""Privacy-loss distributions on a grid: built pessimistically, composed in one Fourier transform.

A mechanism is known here by its hockey-stick divergence δ(ε) between the two output laws of neighbouring inputs.
Joining the points (e^ε, δ(ε)) at grid losses by straight lines ("connect the dots", arXiv:2207.04380) gives a discrete
loss distribution that dominates the true one, so every ε computed from it is an upper bound, on any grid. The numbers
are those of dp-accounting's PLD; computing with whole arrays makes them ten times cheaper, cheap enough to price
every round.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from sordino.privacy.normal import Floats, half_erfcx, log_ndtr, ndtr

TAIL_STANDARD_DEVIATIONS = 10.0
"""Gaussian noise beyond this has mass 8e-24 and is counted as an infinite loss."""

FIRST_TILT, TILTS = 0.5, 6
"""Chernoff's bound is tried at tilts from half to sixteen over the standard deviation; each is twice the one before."""

COARSEST_STRIDE, STRIDES_PER_DEVIATION = 16, 4
"""For Chernoff's bound, losses are brought together at every sixteenth where their deviation is four times as wide, else at more."""

FAR_TAIL = 25.0
"""Standard deviations from which on Φ is told by its ratio to the density, so that it does not become zero."""

ROUNDING_PER_TRANSFORM, ROUNDING_PER_STEP = 1e-14, 3e-17
"""Allowance in δ for floating-point rounding, several times what 100,000 composed Gaussians show."""


@dataclass(frozen=True, kw_only=True)
class Divergence:
    """δ(ε) of one ordered pair of output laws, and the range of losses worth a grid."""

    delta: Callable[[Floats], Floats]
    lowest: float
    highest: float


def gaussian(noise_multiplier: float) -> Divergence:
    """N(1, z²) against N(0, z²); the two directions are alike.

    With x = 1/2z − zε and y = 1/2z + zε, δ(ε) = Φ(x) − e^ε·Φ(−y), and e^ε·φ(y) = φ(x).
    """
    z = noise_multiplier
    reach = 0.5 / z**2 + TAIL_STANDARD_DEVIATIONS / z

    def delta(epsilon: Floats) -> Floats:
        scaled = z * epsilon
        near, far = 0.5 / z - scaled, 0.5 / z + scaled
        in_tail = far > FAR_TAIL
        reduced = np.exp(np.where(in_tail, -(near**2) / 2, epsilon))
        reduced[~in_tail] *= ndtr(-far[~in_tail])
        reduced[in_tail] *= half_erfcx(far[in_tail])
        found: Floats = ndtr(near) - reduced
        return found

    return Divergence(delta=delta, lowest=-reach, highest=reach)


def laplace(noise_multiplier: float) -> Divergence:
    """Laplace noise of scale z around 1 against around 0; the two directions are alike."""
    pure = 1 / noise_multiplier

    def delta(epsilon: Floats) -> Floats:
        return np.where(
            epsilon < -pure, -np.expm1(np.minimum(epsilon, 0)), -np.expm1(np.minimum(epsilon - pure, 0) / 2)
        )

    return Divergence(delta=delta, lowest=-pure, highest=pure)


def poisson(base: Divergence, rate: float) -> tuple[Divergence, Divergence]:
    """A symmetric pair (P₁, P₀) seen through a coin: (1−q)P₀ + qP₁ against P₀, and the other way round.

    Where e^ε > 1−q, put e^L = 1 + (e^ε−1)/q: the mixture exceeds e^ε times P₀ exactly where P₁ exceeds e^L times P₀,
    by q times as much, so δ(ε) = q·δ_base(L); below that, δ(ε) = 1−e^ε. The other direction follows in the same way:
    q·e^(ε+M)·δ_base(−M) with e^M = 1 + (e^−ε−1)/q.
    """

    def present(epsilon: Floats) -> Floats:
        amplified = epsilon > math.log1p(-rate)
        shifted = _log_mixture(epsilon[amplified], 1 / rate)
        delta = -np.expm1(np.minimum(epsilon, 0))
        delta[amplified] = rate * base.delta(shifted)
        return delta

    def absent(epsilon: Floats) -> Floats:
        possible = epsilon < -math.log1p(-rate)
        shifted = _log_mixture(-epsilon[possible], 1 / rate)
        delta = np.zeros_like(epsilon)
        delta[possible] = rate * np.exp(epsilon[possible] + shifted) * base.delta(-shifted)
        return delta

    lowest, highest = (float(end) for end in _log_mixture(np.array([base.lowest, base.highest]), rate))
    return (
        Divergence(delta=present, lowest=lowest, highest=highest),
        Divergence(delta=absent, lowest=-highest, highest=-lowest),
    )


def replaced_gaussian(noise_multiplier: float, rate: float) -> Divergence:
    """(1−q)N(0, z²) + qN(1, z²) against (1−q)N(0, z²) + qN(−1, z²): one sampled unit replaced by its opposite.

    The loss increases with x, and equals ε at x = z²(ε/2 + asinh(a·sinh(ε/2))) with a = e^(1/2z²)(1−q)/q.
    """
    z = noise_multiplier
    log_a = 0.5 / z**2 + math.log1p(-rate) - math.log(rate)
    tail = 0.5 / z**2 + TAIL_STANDARD_DEVIATIONS / z
    gain, loss = (float(end) for end in _log_mixture(np.array([tail, tail + 1 / z**2]), rate))
    reach = gain + min(loss, -math.log1p(-rate))

    def delta(epsilon: Floats) -> Floats:
        half = np.maximum(np.abs(epsilon) / 2, 1e-300)
        log_sinh = half + np.log(-np.expm1(-2 * half)) - math.log(2)
        asinh = np.logaddexp(0.5 * np.logaddexp(0, 2 * (log_a + log_sinh)), log_a + log_sinh)
        threshold = z**2 * np.sign(epsilon) * (half + asinh)
        absent = math.log1p(-rate) + log_ndtr(-threshold / z)
        upper = np.logaddexp(absent, math.log(rate) + log_ndtr((1 - threshold) / z))
        lower = np.logaddexp(absent, math.log(rate) + log_ndtr((-1 - threshold) / z))
        found: Floats = np.exp(upper) - np.exp(epsilon + lower)
        return found

    return Divergence(delta=delta, lowest=-reach, highest=reach)


def _log_mixture(loss: Floats, weight: float) -> Floats:
    """log(1 + weight·(e^loss − 1)), without overflow."""
    small = np.log1p(np.maximum(weight * np.expm1(np.minimum(loss, 600)), -1 + 1e-16))
    return np.where(loss > 600, math.log(weight) + loss, small)


@dataclass(frozen=True, kw_only=True)
class Losses:
    """Mass on the losses `interval`·(start, start+1, …), and on an infinite loss."""

    interval: float
    start: int
    mass: Floats
    infinite: float

    def epsilon(self, delta: float) -> float:
        """The smallest ε ≥ 0 with δ(ε) ≤ delta."""
        if self.infinite > delta:
            return math.inf
        below, above = -1, max(0, self.start + len(self.mass) - 1)
        decay = np.exp(-self.interval * np.arange(1, len(self.mass) + 1))

        def beyond(index: int) -> tuple[float, float]:
            """P(loss > ε), and E[e^(ε−loss); loss > ε], at the grid loss ε of this index."""
            mass = self.mass[max(0, index + 1 - self.start) :]
            gap = math.exp(-self.interval * max(0, self.start - index - 1))
            return self.infinite + float(mass.sum()), gap * float((mass * decay[: len(mass)]).sum())

        while above - below > 1:
            middle = (below + above) // 2
            held, scaled = beyond(middle)
            below, above = (middle, above) if held - scaled > delta else (below, middle)
        if below < 0:
            return 0.0
        held, scaled = beyond(below)
        return below * self.interval + math.log((held - delta) / scaled)

    def announced(self, rate: float) -> Losses:
        """The same release made with probability `rate`, with everybody told whether it was made."""
        low, high = min(self.start, 0), max(self.start + len(self.mass) - 1, 0)
        mass = np.zeros(high - low + 1)
        mass[self.start - low : self.start - low + len(self.mass)] = rate * self.mass
        mass[-low] += 1 - rate
        return Losses(interval=self.interval, start=low, mass=mass, infinite=rate * self.infinite)


def on_grid(pair: tuple[Divergence, Divergence], interval: float) -> tuple[Losses, Losses]:
    """The dominating distributions of two output laws, either against the other: their δ joins the dots of the true ones.

    Formal guarantee: δ'(ε) of the other direction is 1 − e^ε + e^ε·δ(−ε), so laws that dominate in one direction do so in both, and
    lines between dots stay lines: mass at a loss is e^loss times what the other direction has at its negative. Each is worked out from
    zero upwards alone, where δ is small and rounding too.
    """
    forth, back = pair
    up = _above_zero(forth, interval)
    down = up if back is forth else _above_zero(back, interval)
    first = _joined(up, down)
    return first, first if back is forth else _joined(down, up)


def _above_zero(divergence: Divergence, interval: float) -> Losses:
    """The masses at losses from zero on."""
    high = math.ceil(divergence.highest / interval)
    delta = divergence.delta(interval * np.arange(-1, high + 1, dtype=np.float64))
    delta = np.minimum.accumulate(np.clip(delta, 0, 1))
    falls = -np.diff(delta)
    mass = falls / -math.expm1(-interval)
    mass[:-1] -= falls[1:] / math.expm1(interval)
    return Losses(interval=interval, start=0, mass=np.maximum(mass, 0), infinite=float(delta[-1]))


def _joined(own: Losses, other: Losses) -> Losses:
    """The masses of one direction, those below zero from the other one's above."""
    count = len(other.mass) - 1
    below = other.mass[:0:-1] * np.exp(own.interval * np.arange(-count, 0, dtype=np.float64))
    return Losses(interval=own.interval, start=-count, mass=np.concatenate((below, own.mass)), infinite=own.infinite)


@dataclass(frozen=True, kw_only=True)
class Window:
    """The composed losses that are kept; at most `tail` of the mass lies outside."""

    low: int
    high: int
    tail: float

    @property
    def size(self) -> int:
        return self.high - self.low + 1


def window(parts: Sequence[tuple[Losses, int]], tail: float) -> Window:
    """Chernoff bounds on the composed loss, both sides together at most `tail`."""
    low = float(sum(count * part.start for part, count in parts))
    high = float(sum(count * (part.start + len(part.mass) - 1) for part, count in parts))
    places = np.arange(max(len(part.mass) for part, _ in parts), dtype=np.float64)
    squares = places**2
    centre, variance = 0.0, 0.0
    centred = []
    for part, count in parts:
        mean = _dot(part.mass, places[: len(part.mass)])
        spread = max(0.0, _dot(part.mass, squares[: len(part.mass)]) - mean**2)
        centre += count * (part.start + mean)
        variance += count * spread
        stride = max(1, min(COARSEST_STRIDE, int(math.sqrt(spread) / STRIDES_PER_DEVIATION)))
        mass = _brought_together(part.mass, stride)
        centred.append((mass, stride * places[: len(mass)] - mean, count))
    needed = math.log(2 / tail)
    tilts = FIRST_TILT / math.sqrt(max(variance, 1e-12)) * np.exp2(np.arange(TILTS, dtype=np.float64))
    down, up = np.zeros(TILTS), np.zeros(TILTS)
    for mass, places, count in centred:
        down += count * _log_moments(mass, places, -tilts)
        up += count * _log_moments(mass, places, tilts)
    low = max(low, float(np.max(centre - (down + needed) / tilts)))
    high = min(high, float(np.min(centre + (up + needed) / tilts)))
    return Window(low=math.floor(low), high=math.ceil(high), tail=tail)


def _brought_together(mass: Floats, stride: int) -> Floats:
    """The same mass at every `stride`-th place alone: each lies between two of them, which share it so that the mean stays.

    Formal guarantee: no E[f(place)] of a convex f becomes smaller, because f lies below its chords.
    """
    if stride == 1:
        return mass
    blocks = np.pad(mass, (0, -len(mass) % stride)).reshape(-1, stride)
    shares = np.arange(stride) / stride
    upwards = np.einsum("ij,j->i", blocks, shares)
    shared = np.zeros(len(blocks) + 1)
    shared[:-1] = blocks.sum(1) - upwards
    shared[1:] += upwards
    return shared


def _dot(one: Floats, other: Floats) -> float:
    """Without BLAS, whose threads add in another order: the same bits in a process with one thread and in one with two."""
    return float(np.einsum("i,i->", one, other))


def _log_moments(mass: Floats, places: Floats, tilts: Floats) -> Floats:
    """log E[e^(tilt·place)] for tilts that double, each from the square of the one before.

    Infinite where it cannot be computed, which makes for no bound.
    """
    moments = np.full(len(tilts), math.inf)
    possible = int(np.sum(np.maximum(tilts * places[0], tilts * places[-1]) <= 700))
    powers = np.exp(tilts[0] * places) if possible else places
    for number in range(possible):
        if number:
            np.square(powers, out=powers)
        moments[number] = _dot(mass, powers)
    with np.errstate(divide="ignore"):
        logarithms: Floats = np.log(moments)
    return logarithms


def compose(parts: Sequence[tuple[Losses, int]], kept: Window) -> Losses:
    """The loss of all the parts together, each as often as its count says.

    Formal guarantee: what falls outside the window and an allowance for rounding are counted as infinite losses, and
    masses that come out below zero are cut: each moves mass upwards only.
    """
    size = _quick_length(max(kept.size, *(len(part.mass) for part, _ in parts)))
    spectrum = np.ones(size // 2 + 1, dtype=np.complex128)
    offset, finite = 0, 0.0
    for part, count in parts:
        transform = np.fft.rfft(part.mass, size)
        spectrum *= transform if count == 1 else transform**count
        offset += count * part.start
        finite += count * math.log1p(-part.infinite) if part.infinite < 1 else -math.inf
    rounding = ROUNDING_PER_TRANSFORM + ROUNDING_PER_STEP * sum(count for _, count in parts)
    mass = np.roll(np.fft.irfft(spectrum, size), -((kept.low - offset) % size))[: kept.size]
    return Losses(
        interval=parts[0][0].interval,
        start=kept.low,
        mass=np.maximum(mass, 0),
        infinite=-math.expm1(finite) + kept.tail + rounding,
    )


def _quick_length(least: int) -> int:
    """The smallest length from `least` on with no prime factor above 5, at which transforms are quick."""
    best = 1 << (least - 1).bit_length()
    for fives in (5**power for power in range(12)):
        for odd in (fives * 3**power for power in range(16)):
            if odd < best:
                best = min(best, odd << max(0, (-(-least // odd) - 1).bit_length()))
    return best
