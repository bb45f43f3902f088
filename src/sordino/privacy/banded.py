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
    """Over how many rounds noise is correlated; "auto" takes as many as the turns allow."""
    coefficients: Literal["least-error", "square-root"] = "least-error"
    """Optimised for the number of rounds, or the first of the square root of the matrix that makes prefix sums."""

    divisible: ClassVar[bool] = False
    noise: ClassVar[str] = "banded"

    def for_run(self, run: RunShape) -> Banded:
        _refuse_other_places(run)
        bands = self._bands(run)
        return BandedOverRounds(bands=bands, coefficients=self.coefficients, rounds=run.sampler.rounds)

    def _bands(self, run: RunShape) -> int:
        """As many as were asked for, or as the turns allow; refuses more."""
        rounds, period = run.sampler.rounds, run.sampler.period
        if period == 1 and self.bands != 1:
            raise SordinoError(
                "Mechanism 'banded' needs clients that take turns, so that two turns of one are some rounds apart, but got none; "
                f"set [privacy] participation_cap: of {rounds} rounds, a cap of {max(1, rounds // 10)} lets each client's turn "
                f"come every {-(-rounds // max(1, rounds // 10))} rounds."
            )
        if self.bands == "auto":
            return period
        if self.bands > period:
            raise SordinoError(
                f"[privacy] mechanism asks for {self.bands} bands, but a client's turn comes every {period} rounds already, and "
                f"would meet its own noise again; lower bands to {period}, or lower participation_cap."
            )
        return self.bands


@dataclass(frozen=True, kw_only=True)
class BandedOverRounds(Banded):
    """The same for a run of so many rounds."""

    bands: AtLeastOne
    rounds: AtLeastOne

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
