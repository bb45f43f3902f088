"""What an onlooker of each view sees of canaries, and how loud each was.

The public sees what the method is handed, the server every upload, a client what the public sees less the noise that it and its
friends drew themselves. A canary's score is the sum over all it shows in of log-likelihood ratios under the claimed noise.
Any score is valid: a wrong noise only makes the onlooker guess better or worse.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sordino.audit.planting.decorrelated import Decorrelated
from sordino.audit.planting.ground import BLANKS, Ground
from sordino.audit.planting.jobs import turned
from sordino.core import View
from sordino.engine.messages import Answer, Missing, Request
from sordino.engine.tariff import Tariff
from sordino.engine.transport import Transport
from sordino.privacy.adaptive_clip import COUNT
from sordino.privacy.banded import BandedOverRounds
from sordino.privacy.gep import Gep
from sordino.privacy.mechanisms import UPDATE
from sordino.privacy.pricing import Price

Floats = NDArray[np.float64]
MOST_BLANKS = 100_000
"""Numbers of pure noise that are kept for tests of the noise itself, of each view."""
MOST_PAIRS = 64


@dataclass(kw_only=True)
class Blanks:
    """Noise alone, in multiples of the spread that was charged: coordinates to which no canary contributes."""

    values: list[Tensor] = field(default_factory=list)
    count: int = 0
    correlations: list[float] = field(default_factory=list)
    """Between one release and the next, each a standard normal number where noise is drawn afresh."""
    before: Tensor | None = None

    def add(self, value: Tensor, spread: float) -> None:
        if not value.numel() or not spread:
            return
        standard = (value.double() / spread).cpu()
        if self.count < MOST_BLANKS:
            self.values.append(standard[: MOST_BLANKS - self.count])
            self.count += len(self.values[-1])
        if self.before is not None and len(self.before) == len(standard) and len(self.correlations) < MOST_PAIRS:
            scale = math.sqrt(max(1e-300, float(standard.square().sum() * self.before.square().sum())))
            self.correlations.append(math.sqrt(len(standard)) * float(standard @ self.before) / scale)
        self.before = standard


@dataclass(kw_only=True)
class Weights:
    """How much of canary rows showed, in clip bounds, against how often they should have been drawn."""

    shown: Floats
    expected: Floats
    variance: float = 0.0
    """Of one canary's sum, by noise alone."""

    def add(self, canaries: NDArray[np.int64], shown: Floats, expected: float, variance: float) -> None:
        self.shown[canaries] += shown
        self.expected[canaries] += expected
        self.variance += variance


class Sight:
    """One view's onlooker over one run."""

    def __init__(self, view: View, ground: Ground) -> None:
        self.view, self._ground, self._tariff = view, ground, ground.parts.tariff
        self.scores = np.zeros(ground.canaries)
        self.seen = np.zeros(ground.canaries, dtype=np.int64)
        """In how many releases each canary could show."""
        self.blanks = Blanks()
        self.weights = Weights(shown=np.zeros(ground.canaries), expected=np.zeros(ground.canaries))
        self.inside: list[float] = []
        """Noise alone in the subspace of public rows, in multiples of the spread that was charged."""
        self.counts: list[tuple[int, float, float]] = []
        """Clients, the noisy count that each sent, and the spread of its noise."""
        mechanism = self._tariff.mechanism
        self._undone = Decorrelated(mechanism.matrix) if isinstance(mechanism, BandedOverRounds) else None

    def total(self, round_number: int, clip: float, value: Tensor, known: Sequence[Tensor] = ()) -> None:
        """A sum over the cohort, of which some shares may be `known` to the onlooker."""
        tariff, sampler = self._tariff, self._tariff.sampler
        spread = _spread(tariff, round_number, clip) * _widening(tariff, len(known))
        rest = (value - torch.stack(list(known)).sum(0) if known else value).cpu().double()
        fresh, whole = (rest, [(round_number, rest)]) if self._undone is None else self._undone.add(round_number, rest)
        rate = min(1.0, sampler.expected_cohort / sampler.smallest_pool)
        for number, shown in whole:
            canaries = sampler.pool(number)
            canaries = canaries[canaries < min(shown.numel(), self._ground.canaries)]
            self._score(canaries, shown.numpy()[canaries], number, clip, spread, rate)
        self.blanks.add(fresh[self._ground.clients :], spread)

    def upload(self, round_number: int, clip: float, client: int, value: Tensor) -> None:
        """What one client sent; the onlooker knows whose it is."""
        if self._ground.unit == "example":
            self._steps(round_number, clip, client, value)
            return
        spread = _spread(self._tariff, round_number, clip, client)
        if client < min(value.numel(), self._ground.canaries):
            canary = np.array([client])
            self._score(canary, value[client : client + 1].cpu().double().numpy(), round_number, clip, spread, 1.0)
        self.blanks.add(value[self._ground.clients :], spread)

    def count(self, round_number: int, client: int, value: float) -> None:
        """Whether one client's update was within the clip, with noise: a canary that is in asks for more, one that is out for nothing."""
        part = next(part for part in self._tariff.price(client, round_number).others if part.name == COUNT)
        spread = part.noise_multiplier * part.clip_bound
        self.counts.append((client, value, spread))
        shown = np.array([1.0 - value])
        self.scores[client] += _evidence(shown, part.clip_bound, spread, 1.0, self._tariff.mechanism.noise)[0]

    def _steps(self, round_number: int, clip: float, client: int, value: Tensor) -> None:
        """The sum of a turn's noisy sums: up for one class and down for the other, in each map."""
        tariff, ground = self._tariff, self._ground
        assert tariff.steps is not None
        maps = value.numel() // (2 * ground.task.shape[0])
        apart = value.double().cpu().view(maps, 2, -1)
        shown = ((apart[:, 0] - apart[:, 1]).sum(0) / math.sqrt(2 * maps)).numpy()
        own = np.arange(client, ground.canaries, ground.clients)[: ground.sizes[client]]
        price, steps = tariff.price(client, round_number), tariff.steps.local_steps
        if isinstance(tariff.mechanism, Gep):
            seen = _in_and_out_of_subspace(shown, own, ground, clip, price, steps)
        else:
            spread = price.noise_multiplier * math.sqrt(steps)
            blank = apart[0, :, ground.canaries : ground.canaries + BLANKS].flatten() / clip
            seen = _Turn(
                shown[own] / (clip * math.sqrt(maps)), np.full(len(own), spread), blank / spread / math.sqrt(maps)
            )
        rate = tariff.steps.rate(ground.sizes[client])
        self.weights.add(own, seen.shown, rate * steps, float(np.mean(seen.spread**2)) if len(own) else 0.0)
        for spread in np.unique(seen.spread):
            alike = seen.spread == spread
            if steps == 1:
                self._score(own[alike], seen.shown[alike], 0, 1.0, float(spread), rate)
            else:
                self.scores[own[alike]] += seen.shown[alike] / spread**2
                self.seen[own[alike]] += 1
        self.blanks.add(seen.blank, 1.0)
        self.inside += seen.inside.tolist()

    def _score(
        self, canaries: NDArray[np.int64], shown: Floats, number: int, clip: float, spread: float, rate: float
    ) -> None:
        sign = turned(number, self._tariff.sampler.period) if self._ground.unit == "client" else 1.0
        self.scores[canaries] += _evidence(sign * shown, clip, spread, rate, self._tariff.mechanism.noise)
        self.seen[canaries] += 1


def _evidence(shown: Floats, moved: float, spread: float, rate: float, noise: str) -> Floats:
    """The logarithm of how much likelier this value is with the canary than without it, where it is drawn at this rate."""
    if not spread:
        return shown / moved
    gaussian, laplace = (shown * moved - moved**2 / 2) / spread**2, (np.abs(shown) - np.abs(shown - moved)) / spread
    ratio = laplace if noise == "laplace" else gaussian
    if rate >= 1:
        return ratio
    found: Floats = np.logaddexp(math.log1p(-rate), math.log(rate) + ratio)
    return found


@dataclass(frozen=True, eq=False)
class _Turn:
    """What one turn shows of a client's canaries: each moves by 1 per step, under noise of this spread; and noise alone, of spread 1."""

    shown: Floats
    spread: Floats
    blank: Tensor
    inside: Floats = field(default_factory=lambda: np.zeros(0))
    """The same where public rows span a subspace."""


def _in_and_out_of_subspace(
    shown: Floats, own: NDArray[np.int64], ground: Ground, clip: float, price: Price, steps: int
) -> _Turn:
    """What lies in the public subspace has its own clip and noise, and beside it the noise of the rest, which lies everywhere.

    Canaries that show in both are scored by both, each weighed by its noise.
    """
    (rest,) = price.others
    outside = shown[own] / rest.clip_bound
    spread = np.full(len(own), rest.noise_multiplier * math.sqrt(steps))
    both = math.hypot(price.noise_multiplier, rest.noise_multiplier * rest.clip_bound / clip) * math.sqrt(steps)
    public = shown[ground.canaries + BLANKS :] / clip
    count = min(ground.shared, len(own))
    weight = both**-2 / (both**-2 + spread[:count] ** -2)
    outside[:count] = weight * public[:count] + (1 - weight) * outside[:count]
    blank = shown[ground.canaries : ground.canaries + BLANKS]
    blank = blank / (rest.clip_bound * rest.noise_multiplier * math.sqrt(steps))
    inside = public[ground.shared :] / both
    spread[:count] = (both**-2 + spread[:count] ** -2) ** -0.5
    return _Turn(outside, spread, torch.from_numpy(blank), inside)


def _spread(tariff: Tariff, round_number: int, clip: float, client: int = 0) -> float:
    return tariff.price(client, round_number).noise_multiplier * clip


def _widening(tariff: Tariff, known: int) -> float:
    """How much wider the noise of a sum is than that of one release."""
    return 1.0 if tariff.placement == "central" else math.sqrt(max(0, tariff.sampler.seats - known))


@dataclass(kw_only=True)
class Watchers:
    """The onlookers of one run: before the verbs, and before the transport."""

    sights: dict[View, Sight]
    colluders: Sequence[int]
    """Clients whose own noise the onlooker of the client view knows."""
    _uploads: dict[int, Tensor] = field(default_factory=dict)
    _clips: dict[int, float] = field(default_factory=dict)
    """With which clip each client was last asked, where every client has its own."""

    def total(self, round_number: int, clip: float, value: Tensor) -> None:
        known = [self._uploads[client] for client in self.colluders if client in self._uploads]
        for view, sight in self.sights.items():
            if view != "server":
                sight.total(round_number, clip, value, known if view == "client" else ())
        self._uploads.clear()

    def upload(self, round_number: int, clip: float, client: int, value: Tensor) -> None:
        for view, sight in self.sights.items():
            if view != "server":
                sight.upload(round_number, self._clips.get(client, clip), client, value)

    def arrived(self, request: Request, answer: Answer) -> None:
        """An upload on its way in, as the server sees it."""
        value = answer.released.get(UPDATE)
        if value is None or request.kind not in ("update", "support", "steps"):
            return
        self._clips[request.client] = request.clip.bound
        if request.client in self.colluders:
            self._uploads[request.client] = value.value
        if "server" in self.sights:
            self.sights["server"].upload(request.round, request.clip.bound, request.client, value.value)
            if COUNT in answer.released:
                self.sights["server"].count(request.round, request.client, float(answer.released[COUNT].value))


@dataclass(kw_only=True)
class WatchedTransport:
    """Any engine's transport, with an onlooker who sees what comes back."""

    inner: Transport
    watchers: Watchers

    def exchange(self, requests: Sequence[Request]) -> list[Answer | Missing]:
        found = self.inner.exchange(requests)
        for request, answer in zip(requests, found, strict=True):
            if isinstance(answer, Answer):
                self.watchers.arrived(request, answer)
        return found
