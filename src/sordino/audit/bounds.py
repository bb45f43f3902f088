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
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sordino.audit.gaussian_dp import FEWEST_SAMPLES
from sordino.audit.one_run import correct_guesses, epsilon_lower_bound
from sordino.audit.ranked import ranked
from sordino.audit.trade_off import BISECTIONS, FEW_BISECTIONS, Claim, Curve

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
BoundName = Literal["one-run", "one-run f-DP", "repeats", "repeats, in form"]
BOUNDS: tuple[BoundName, ...] = ("one-run", "one-run f-DP", "repeats", "repeats, in form")
SHARES = (0.02, 0.05, 0.1, 0.2, 0.35, 0.5)
"""Shares of all canaries that may be called in, or in and out; or of those that are out, how many a test by ranks accuses."""
SMALL_SHARES = (0.002, 0.005, 0.01)
"""Shares that tests by ranks may accuse besides: where few are accused, ε of any mechanism shows best."""
BROKEN = 0.25
"""The share of the noise that a broken run is made up with."""
REFINED = 3
"""Halvings more for ε itself, which is searched in a wider range than a factor on the noise."""


@dataclass(frozen=True, kw_only=True)
class Guessing:
    """One bound with all its choices made."""

    bound: BoundName
    called_in: int = 0
    called_out: int = 0
    accused: float = 0.0
    """By repeats: the share of those that are out above whose scores others are counted."""

    @property
    def guesses(self) -> int:
        return self.called_in + self.called_out

    def proven(
        self, scores: Floats, included: Flags, claim: Claim, *, confidence: float, bisections: int = BISECTIONS
    ) -> float:
        """The ε that these observations prove; with fewer `bisections`, sooner and rounded down."""
        if self.accused:
            return self._by_ranks(scores, included, claim, 1 - confidence, bisections)
        correct = correct_guesses(scores, included, called_in=self.called_in, called_out=self.called_out)
        if self.bound == "one-run":
            return epsilon_lower_bound(correct, self.guesses, len(scores), claim.delta, confidence)
        return claim.proven(
            lambda curve: refuted_in_one_run(curve, correct, self.guesses, len(scores), 1 - confidence),
            bisections=bisections,
        )

    def _by_ranks(self, scores: Floats, included: Flags, claim: Claim, level: float, bisections: int) -> float:
        seen = ranked(scores, included, self.accused)
        if self.bound == "repeats":
            return seen.epsilon(delta=claim.delta, level=level, bisections=bisections + REFINED)
        return claim.proven(lambda curve: seen.refutes(curve.all_found, level), bisections=bisections)

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


def choose(canaries: int, claim: Claim, *, confidence: float) -> tuple[Guessing, dict[BoundName, Guessing]]:
    """The bound, and for each of them the guesses, that prove most of made-up canaries of a run which keeps its promise exactly.

    One that would catch a run with a quarter of its noise goes before one that would not. Nothing of the audited run is looked at.
    """
    claimed = claim.epsilon()
    typical, broken = (_made_up(canaries, claim.presence(scale)) for scale in (1.0, BROKEN))
    best: dict[BoundName, tuple[bool, float, float, Guessing]] = {}
    for way in _ways(canaries):
        expected = way.proven(*typical, claim, confidence=confidence)
        power = way.power(canaries, claim, confidence=confidence, bisections=FEW_BISECTIONS)
        caught = way.proven(*broken, claim, confidence=confidence, bisections=FEW_BISECTIONS) > claimed
        merit = (caught, expected, power)
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
        by_ranks: tuple[BoundName, ...] = ("repeats", "repeats, in form")
        ways += [Guessing(bound=bound, accused=share) for share in (*SMALL_SHARES, *SHARES) for bound in by_ranks]
    return ways


def _made_up(canaries: int, curve: Curve) -> tuple[Floats, Flags]:
    """Scores of canaries that the best test tells apart exactly as well as the curve allows, and without any luck.

    The score is that test's own place on the curve: every other canary is out, and those are spread evenly over the shares accused.
    """
    coins = np.arange(canaries) % 2 == 0
    place = (np.arange(canaries) // 2 + 0.5) / ((canaries + 1) // 2)
    accused = np.where(coins, np.interp(place, curve.true_positive, curve.false_positive), place)
    return -accused, coins
