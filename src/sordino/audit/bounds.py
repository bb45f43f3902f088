"""The bounds that an audit may use, and which of them it uses: decided before anything is looked at.

All take the scores of canaries and the coins that put them in. Several runs with canaries of their own count as one run with all
their canaries, because each canary is in one of them at most.

| bound | proves | needs |
|---|---|---|
| `one-run` (arXiv:2305.08846) | ε at δ of any mechanism | the number of guesses, fixed beforehand |
| `one-run f-DP` (arXiv:2410.22235) | ε of the ledger's form of noise, whatever its amount | the same |
| `repeats` | ε at δ of any mechanism | canaries whose noise is independent |
| `repeats, in form` (Gaussian DP where the bill is plain Gaussian) | ε of the ledger's form of noise, whatever its amount | the same |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypedDict

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from sordino.audit.gaussian_dp import FEWEST_SAMPLES, epsilon_lower_bound_by_repeats, tested_errors
from sordino.audit.one_run import correct_guesses, epsilon_lower_bound
from sordino.audit.trade_off import BISECTIONS, FEW_BISECTIONS, Claim, Curve

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
BoundName = Literal["one-run", "one-run f-DP", "repeats", "repeats, in form"]
BOUNDS: tuple[BoundName, ...] = ("one-run", "one-run f-DP", "repeats", "repeats, in form")
SHARES = (0.02, 0.05, 0.1, 0.2, 0.35, 0.5)
"""Shares of all canaries that may be called in, or in and out."""
REHEARSALS = 3
BROKEN = 0.25
"""The share of the noise that a broken run is made up with."""
TIE = 1e-3
"""How much a test counts for itself where the claim allows everything, so that no test beats it."""


class Settings(TypedDict):
    """How sure, and how finely."""

    confidence: float
    bisections: int


@dataclass(frozen=True, kw_only=True)
class Guessing:
    """One bound with all its choices made."""

    bound: BoundName
    called_in: int = 0
    called_out: int = 0

    @property
    def guesses(self) -> int:
        return self.called_in + self.called_out

    def proven(
        self, scores: Floats, included: Flags, claim: Claim, *, confidence: float, bisections: int = BISECTIONS
    ) -> float:
        """The ε that these observations prove; with fewer `bisections`, sooner and rounded down."""
        if self.bound == "repeats":
            return epsilon_lower_bound_by_repeats(
                scores[~included], scores[included], delta=claim.delta, confidence=confidence
            )
        if self.bound == "repeats, in form":
            return _repeats_in_form(scores, included, claim, confidence, bisections)
        correct = correct_guesses(scores, included, called_in=self.called_in, called_out=self.called_out)
        if self.bound == "one-run":
            return epsilon_lower_bound(correct, self.guesses, len(scores), claim.delta, confidence)
        return claim.proven(
            lambda curve: refuted_in_one_run(curve, correct, self.guesses, len(scores), 1 - confidence),
            bisections=bisections,
        )

    def correct(self, scores: Floats, included: Flags) -> int | None:
        """How many guesses were right, where there is a number of guesses."""
        if not self.guesses:
            return None
        return correct_guesses(scores, included, called_in=self.called_in, called_out=self.called_out)

    def power(self, canaries: int, claim: Claim, *, confidence: float, bisections: int = BISECTIONS) -> float:
        """The ε that it would prove if every canary were told apart without a doubt."""
        included = np.arange(canaries) % 2 == 0
        scores = included.astype(np.float64)
        return self.proven(scores, included, claim, confidence=confidence, bisections=bisections)


def refuted_in_one_run(curve: Curve, correct: int, guesses: int, canaries: int, level: float) -> bool:
    """Whether so many right guesses are less likely than `level` for any run that keeps to the curve (arXiv:2410.22235)."""
    right, wrong = level * correct / canaries, level * (guesses - correct) / canaries
    for still in range(correct - 1, -1, -1):
        more = max(wrong, curve.accused(right))
        if more == wrong:
            break
        right, wrong = min(right + still / (guesses - still) * (more - wrong), 1.0), more
    return right + wrong > guesses / canaries


def _repeats_in_form(scores: Floats, included: Flags, claim: Claim, confidence: float, bisections: int) -> float:
    curve = claim.curve()

    def beats(false_positive: Floats, false_negative: Floats) -> Floats:
        """By how many standard normal places a test is better than the claim allows."""
        allowed = np.interp(false_positive, curve.false_positive, curve.true_positive)
        gained = _place(1 - false_negative) - _place(allowed)
        any_better: Floats = gained + TIE * (_place(1 - false_negative) + _place(1 - false_positive))
        return any_better

    accused, missed = tested_errors(scores[~included], scores[included], beats, confidence=confidence)

    def refuted(other: Curve) -> bool:
        return 1 - missed > other.found(accused) or 1 - accused > other.found(missed)

    return claim.proven(refuted, bisections=bisections)


def _place(share: Floats) -> Floats:
    place: Floats = stats.norm.ppf(np.clip(share, 1e-15, 1 - 1e-15))
    return place


def choose(canaries: int, claim: Claim, *, confidence: float, seed: int) -> tuple[Guessing, dict[BoundName, Guessing]]:
    """The bound, and for each of them the guesses, that prove most of made-up canaries of a run which keeps its promise exactly.

    One that would catch a run with a quarter of its noise goes before one that would not. Nothing of the audited run is looked at.
    """
    claimed = claim.epsilon()
    settings: Settings = {"confidence": confidence, "bisections": FEW_BISECTIONS}
    rng = np.random.default_rng(seed)
    rehearsals = [_made_up(canaries, claim.presence(), rng) for _ in range(REHEARSALS)]
    broken = _made_up(canaries, claim.presence(BROKEN), rng)
    best: dict[BoundName, tuple[bool, float, float, Guessing]] = {}
    for way in _ways(canaries):
        expected = float(np.median([way.proven(*made_up, claim, **settings) for made_up in rehearsals]))
        power = way.power(canaries, claim, **settings)
        merit = (way.proven(*broken, claim, **settings) > claimed, expected, power)
        if way.bound not in best or merit > best[way.bound][:3]:
            best[way.bound] = (*merit, way)
    winner = max(best.values(), key=lambda entry: entry[:3])[3]
    return winner, {bound: entry[3] for bound, entry in best.items()}


def _ways(canaries: int) -> list[Guessing]:
    one_run: tuple[BoundName, ...] = ("one-run", "one-run f-DP")
    ways = []
    for share in SHARES:
        some = max(1, int(share * canaries))
        ways += [Guessing(bound=bound, called_in=some) for bound in one_run]
        if 2 * some <= canaries:
            ways += [Guessing(bound=bound, called_in=some, called_out=some) for bound in one_run]
    if canaries >= 8 * FEWEST_SAMPLES:
        ways += [Guessing(bound="repeats"), Guessing(bound="repeats, in form")]
    return ways


def _made_up(canaries: int, curve: Curve, rng: np.random.Generator) -> tuple[Floats, Flags]:
    """Scores of canaries that the best test tells apart exactly as well as the curve allows.

    The score is that test's own place on the curve: those that are out are spread evenly over the shares accused.
    """
    coins = rng.random(canaries) < 0.5
    place = rng.random(canaries)
    accused = np.where(coins, np.interp(place, curve.true_positive, curve.false_positive), place)
    return -accused, coins
