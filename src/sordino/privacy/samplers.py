"""Who takes part: samplers that draw, and that say what their draw means to the accountant.

A cap on participations splits the roster into `period` pools that take turns, by client number alone. Within its turns a
client is drawn afresh each time, so amplification by sampling holds there as usual, and nobody can be drawn more often
than it has turns. (Skipping clients that reached a cap would tie one round's draw to another's, which no accountant prices.)
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from sordino.core import SordinoError
from sordino.privacy.streams import stream_id
from sordino.registry import Registry

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sordino.privacy.coins import Coins
    from sordino.privacy.event_kinds import DpEvent


@dataclass(frozen=True, kw_only=True)
class CohortSampler(ABC):
    """Draws a cohort in each round, and says what the draw means to the accountant.

    Args:
        clients: how many are on the roster; they are numbered from 0.
        rounds: how many rounds the run has.
        expected_cohort: how many clients a round has on average.
        participation_cap: how many rounds a client can be drawn in at the most; None for no cap.

    Example:
        see `Poisson` in this file: `draw` flips the coins whose rate `event` tells
    """

    clients: int
    rounds: int
    expected_cohort: float
    participation_cap: int | None = None
    bounded: bool = False
    """Whether the cohort's size needs a public upper limit (`seats`), because every member brings a share of the noise."""

    fixed_size: ClassVar[bool]

    def __post_init__(self) -> None:
        if self.participation_cap is not None and self.participation_cap < 1:
            raise SordinoError(
                f"participation_cap must be at least 1, but got {self.participation_cap}; leave it out for no cap."
            )
        if not 0 < self.expected_cohort <= self.smallest_pool:
            pools = f" ({self.period} pools take turns under the participation cap)" if self.period > 1 else ""
            raise SordinoError(
                f"[privacy] expected_cohort asks for {self.expected_cohort:g}, but at most {self.smallest_pool} clients can be "
                f"drawn in a round{pools}; lower expected_cohort or add clients."
            )

    @property
    def period(self) -> int:
        """How many pools take turns."""
        if self.participation_cap is None or self.participation_cap >= self.rounds:
            return 1
        return math.ceil(self.rounds / self.participation_cap)

    @property
    def smallest_pool(self) -> int:
        return self.clients // self.period

    @property
    def largest_pool(self) -> int:
        return math.ceil(self.clients / self.period)

    def residue(self, round_number: int) -> int:
        """Which pool's turn it is: clients whose number leaves this residue when divided by `period`."""
        return round_number % self.period

    def pool(self, round_number: int) -> NDArray[np.int64]:
        return np.arange(self.residue(round_number), self.clients, self.period)

    def turns(self, residue: int) -> int:
        """How often a client of this pool can be drawn at the most."""
        return len(range(residue, self.rounds, self.period))

    @property
    @abstractmethod
    def seats(self) -> int:
        """The largest cohort that can turn up: the public number of noise shares."""

    @abstractmethod
    def draw(self, round_number: int, source: Coins) -> NDArray[np.int64]:
        """The clients of this round, in ascending order, from `pool(round_number)`; all chance comes from `source`."""

    @abstractmethod
    def event(self, inner: DpEvent) -> DpEvent:
        """What one round costs somebody of the pool, where `inner` is what it costs those who are drawn."""


SAMPLERS: Registry[type[CohortSampler]] = Registry("sampler", "sordino.privacy", CohortSampler)


@SAMPLERS.register("poisson")
@dataclass(frozen=True, kw_only=True)
class Poisson(CohortSampler):
    """Every client flips its own coin; the cohort may be empty.

    Formal guarantee: with `bounded`, a draw of more than `seats` is drawn again. Given who else was drawn, a client's own
    chance is then the rate or zero, so the Poisson event at the rate still dominates.
    """

    fixed_size = False

    @property
    def rate(self) -> float:
        return self.expected_cohort / self.smallest_pool

    @property
    def seats(self) -> int:
        if not self.bounded:
            return self.clients
        return min(self.largest_pool, math.ceil(self.expected_cohort + 4 * math.sqrt(self.expected_cohort)))

    def draw(self, round_number: int, source: Coins) -> NDArray[np.int64]:
        pool = self.pool(round_number)
        attempt = 0
        while True:
            coins = source.uniform(len(pool), stream=stream_id("cohort", round_number, attempt)).numpy()
            cohort = pool[coins < self.rate]
            if len(cohort) <= self.seats:
                return cohort
            attempt += 1

    def event(self, inner: DpEvent) -> DpEvent:
        from sordino.privacy.event_kinds import PoissonSampledDpEvent

        return inner if self.rate >= 1 else PoissonSampledDpEvent(self.rate, inner)


@SAMPLERS.register("fixed-size")
@dataclass(frozen=True, kw_only=True)
class FixedSize(CohortSampler):
    """A cohort of exactly the expected size, without replacement."""

    fixed_size = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.expected_cohort != int(self.expected_cohort):
            raise SordinoError(
                f"A fixed-size cohort needs a whole number of clients, but got {self.expected_cohort}; use sampler = 'poisson'."
            )

    @property
    def seats(self) -> int:
        return int(self.expected_cohort)

    def draw(self, round_number: int, source: Coins) -> NDArray[np.int64]:
        pool = self.pool(round_number)
        order = source.uniform(len(pool), stream=stream_id("cohort", round_number, 0)).numpy()
        return np.sort(pool[np.argsort(order, kind="stable")[: self.seats]])

    def event(self, inner: DpEvent) -> DpEvent:
        from sordino.privacy.event_kinds import SampledWithoutReplacementDpEvent

        if self.seats >= self.smallest_pool:
            return inner
        return SampledWithoutReplacementDpEvent(self.smallest_pool, self.seats, inner)


@SAMPLERS.register("everyone")
@dataclass(frozen=True, kw_only=True)
class Everyone(CohortSampler):
    """The whole pool, every round: no amplification."""

    fixed_size = True

    @property
    def seats(self) -> int:
        return self.largest_pool

    def draw(self, round_number: int, source: Coins) -> NDArray[np.int64]:
        return self.pool(round_number)

    def event(self, inner: DpEvent) -> DpEvent:
        return inner


def poisson_batch(examples: int, rate: float, source: Coins, *, stream: int) -> NDArray[np.int64]:
    """The rows of one Poisson batch inside one client."""
    return np.flatnonzero(source.uniform(examples, stream=stream).numpy() < rate)
