"""Choose between tuning the head and tuning everything before the budget is spent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from sordino.core import Neighbours, SordinoError
from sordino.models import Net
from sordino.settings import NotNegative, Positive
from sordino.tuning.full import Full
from sordino.tuning.gradient_statistics import StatisticName, noise_multiplier
from sordino.tuning.head import Head
from sordino.tuning.rule import Coefficient
from sordino.tuning.strategy import TUNINGS

if TYPE_CHECKING:
    from sordino.privacy.event_kinds import DpEvent


@TUNINGS.register("auto")
@dataclass(frozen=True, kw_only=True)
class Auto:
    """The head alone or everything, whichever the convergence bound prefers, by a few private statistics.

    Formal guarantee: each statistic is a Laplace release of every client, and all of a client's together cost `epsilon` by plain
    composition; the noise of the training is worked out for what the budget leaves. The choice is post-processing.
    """

    epsilon: Positive = 0.01
    """Of all statistics together, for each client."""
    statistics: Literal["decisive", "all"] = "decisive"
    coefficient: Coefficient = "printed"
    largest_gradient: Positive | None = None
    """The longest mean gradient that is told apart; by default the clip norm. A smaller one needs less noise."""
    probe_radius: Positive = 0.1
    """How far apart the two points are between which smoothness is measured."""
    assumed: tuple[NotNegative, NotNegative] | None = None
    """G1² and G2² that a plan shows the choice for; a run does not read them."""

    def trainable(self, net: Net) -> list[str]:
        Head().trainable(net)
        return Full().trainable(net)

    def names(self, *, full_batches: bool) -> tuple[StatisticName, ...]:
        """What is released. With full batches Λ1 and Λ2 are known to be zero; Γ follows from G2² and Λ2²."""
        if self.statistics == "decisive":
            return "G1²", "G2²"
        return ("G1²", "G2²", "L") if full_batches else ("G1²", "G2²", "Λ1²", "Λ2²", "L")

    def noise_multiplier(self, *, full_batches: bool, neighbours: Neighbours) -> float:
        count = len(self.names(full_batches=full_batches))
        return noise_multiplier(epsilon=self.epsilon, statistics=count, replace_one=neighbours == "replace-one")

    def charges(self, *, full_batches: bool, neighbours: Neighbours) -> dict[DpEvent, int]:
        """What every client pays before the first round."""
        from sordino.privacy.event_kinds import LaplaceDpEvent

        multiplier = self.noise_multiplier(full_batches=full_batches, neighbours=neighbours)
        return {LaplaceDpEvent(multiplier): len(self.names(full_batches=full_batches))}

    def check_budgets(self, budgets: dict[str, float]) -> None:
        for whose, epsilon in budgets.items():
            if epsilon <= self.epsilon:
                raise SordinoError(
                    f"The statistics of tuning = 'auto' cost ε = {self.epsilon:g}, but {whose} is {epsilon:g} and must leave some "
                    "for training; raise it or lower [tuning] epsilon."
                )
