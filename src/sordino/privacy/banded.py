"""BandMF: Gaussian noise that later rounds take back in part (arXiv:2306.08153)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Literal

from sordino.core import SordinoError
from sordino.privacy.banded_matrix import BandedMatrix, square_root
from sordino.privacy.mechanisms import MECHANISMS, Draw, Gaussian, RunShape
from sordino.settings import AtLeastOne

if TYPE_CHECKING:
    from torch import Tensor

    from sordino.privacy.noise import NoiseSource


MOST_ROUNDS, MOST_BANDS = 10_000, 1_000
"""What can be worked out in a few seconds."""
ENOUGH_BANDS = 100
"""More gain little, and the server keeps a vector as long as the model for each."""


@MECHANISMS.register("banded")
@dataclass(frozen=True, kw_only=True)
class Banded(Gaussian):
    """Gaussian, correlated over rounds in which clients take turns, so that the model strays less (BandMF).

    Formal guarantee: a release costs what independent noise of the same multiplier costs under the same turns. Two turns of
    a client are at least `bands` rounds apart, so what it contributes moves the noise of no round twice
    (`privacy/banded_matrix.py`). A secure run that is taken up after a crash is charged again for what it repeats, as
    always, and correlates nothing with rounds before it (`privacy/correlated_noise.py`).
    """

    bands: AtLeastOne | Literal["auto"] = "auto"
    """Over how many rounds noise is correlated; "auto" takes as many as the turns allow, and no more than a hundred."""
    coefficients: Literal["least-error", "square-root"] = "least-error"
    """Optimised for the number of rounds, or the first of the square root of the matrix that makes prefix sums."""

    divisible: ClassVar[bool] = False
    noise: ClassVar[str] = "banded"

    def for_run(self, run: RunShape) -> Banded:
        _refuse_other_places(run)
        _refuse_without_turns(self.bands, run)
        bands = min(run.sampler.period, ENOUGH_BANDS) if self.bands == "auto" else self.bands
        _refuse_large(bands, run)
        return BandedOverRounds(bands=bands, coefficients=self.coefficients, rounds=run.sampler.rounds)


@dataclass(frozen=True, kw_only=True)
class BandedOverRounds(Banded):
    """The same for a run of so many rounds."""

    bands: AtLeastOne
    rounds: AtLeastOne

    weighs_turns: ClassVar[bool] = True

    @cached_property
    def matrix(self) -> BandedMatrix:
        from sordino.privacy.banded_optimum import least_error

        square = self.coefficients == "square-root"
        found = square_root(self.bands) if square else least_error(self.bands, self.rounds)
        return BandedMatrix(coefficients=found, rounds=self.rounds)

    def draw(self, source: NoiseSource, like: Tensor, wanted: Draw) -> Tensor:
        from sordino.privacy.correlated_noise import Row, correlate

        fresh = super().draw(source, like, wanted)
        row = Row(round=wanted.round, line=wanted.line, attempt=wanted.attempt, scale=wanted.scale)
        return correlate(fresh, row, self.matrix, wanted.memory)

    @property
    def kept_vectors(self) -> int:
        return self.bands - 1

    def sum_error(self, rounds: int) -> float:
        return self.matrix.prefix_error()

    def plan_facts(self, noise_multiplier: float, run: RunShape) -> dict[str, str]:
        return {
            "correlated noise": f"{self.bands} bands ({self.coefficients}) under turns {run.sampler.period} rounds apart; sums over "
            f"rounds stray {self.matrix.gain():.2f} times less than with independent noise of the same multiplier"
        }


def _refuse_other_places(run: RunShape) -> None:
    if run.in_steps or run.unit != "client":
        raise SordinoError(
            "Mechanism 'banded' correlates the noise of rounds, but this method draws noise in every step on examples, whose rows "
            "take no turns; choose method 'dp-fedavg', or mechanism 'gaussian'."
        )
    if run.placement != "central":
        raise SordinoError(
            f"Mechanism 'banded' needs one place that remembers its noise, but got [privacy] noise = {run.placement!r}, which "
            "other clients draw in the next round; set noise = 'central'."
        )


def _refuse_without_turns(bands: int | str, run: RunShape) -> None:
    rounds, period = run.sampler.rounds, run.sampler.period
    if bands == "auto" and period == 1:
        cap = max(1, rounds // 10)
        raise SordinoError(
            "Mechanism 'banded' needs clients that take turns, so that two turns of one are some rounds apart, but got none; set "
            f"[privacy] participation_cap (of {rounds} rounds, a cap of {cap} lets a client's turn come every {-(-rounds // cap)} rounds)."
        )
    if bands != "auto" and int(bands) > period:
        raise SordinoError(
            f"[privacy] mechanism asks for {bands} bands, but a client's turn comes every {period} rounds already, and would meet "
            f"its own noise again; lower bands to {period}, or lower participation_cap."
        )


def _refuse_large(bands: int, run: RunShape) -> None:
    rounds = run.sampler.rounds
    if rounds > MOST_ROUNDS or bands > MOST_BANDS:
        raise SordinoError(
            f"Mechanism 'banded' is planned for up to {MOST_ROUNDS:,} rounds and {MOST_BANDS:,} bands, but got {rounds:,} and {bands:,}; "
            "lower them, or choose mechanism = 'gaussian'."
        )
