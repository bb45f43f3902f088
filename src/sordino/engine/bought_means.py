"""Means that take the place of missing values: what clients release of their rows for it, at which price, before the first round.

Every client has d rows (public). For each column with `missing = "bought"`, between public bounds, it releases two numbers:

    total = Σ a_k,   a_k = the value's place in the range, from 0 to 1, or ½ where it is missing
    filled = Σ b_k,  b_k = 1 where there is a value, 0 where it is missing

A row that contributes nothing counts ½ in both. So it moves each number by at most ½, and one that is replaced by at most 1, which is
twice as much, as `StatisticBound` asks. The mean of what is there is (total − (d − filled) / 2) / filled, summed over clients first:
post-processing of the released numbers.

Formal guarantee: each number is a Laplace release of every client, and all of a client's together cost `bought_epsilon` by plain
composition. Noise of the training is worked out for what the budget leaves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor

from sordino.core import SordinoError
from sordino.data.columns import Number
from sordino.data.examples import Examples
from sordino.engine.features import frozen_body
from sordino.engine.resolved import Resolved
from sordino.methods.context import ClientContext
from sordino.models import Net
from sordino.privacy.clipping import StatisticBound
from sordino.tuning import Phase
from sordino.tuning.gradient_statistics import noise_multiplier

if TYPE_CHECKING:
    from sordino.data.source import Source
    from sordino.privacy.event_kinds import DpEvent
    from sordino.tuning.survey import AskClients

NOTHING = 0.5
"""What a row counts that contributes nothing, and by that the most that one row moves a number."""
EXACT_STEPS = 2**20
"""Places are rounded down to this share, so that their sums are exact."""


@dataclass(frozen=True, kw_only=True)
class MeanSurvey:
    """The two numbers of each column, as every client is asked for them."""

    places: Mapping[str, int]
    """By the column's name, where it stands among the numbers of a row."""
    noise_multiplier: float

    @property
    def names(self) -> Sequence[str]:
        return [f"{what} of {name}" for name in self.places for what in ("total", "filled")]

    def bound(self, name: str, size: int) -> StatisticBound:
        return StatisticBound(largest=float(size), moves=NOTHING)

    def measure(self, model: Tensor, examples: Examples, context: ClientContext) -> dict[str, float]:
        """The numbers, still private; the model says nothing about them."""
        empty = (context.size - len(examples)) * NOTHING
        found: dict[str, float] = {}
        for name, place in self.places.items():
            values = examples.inputs[:, place].double()
            missing = values.isnan()
            shares = ((values + 1) / 2).clamp(0.0, 1.0).masked_fill(missing, NOTHING)
            found[f"total of {name}"] = float(((shares * EXACT_STEPS).floor() / EXACT_STEPS).sum()) + empty
            found[f"filled of {name}"] = float((~missing).sum()) + empty
        return found


def bought_columns(resolved: Resolved) -> list[str]:
    return [name for name, column in resolved.source.declared_columns.items() if column.bought]


def charges_for_means(resolved: Resolved) -> Mapping[DpEvent, int]:
    """What every client pays for the means; runs that cannot buy any, and budgets that do not cover them, are refused."""
    from sordino.privacy.event_kinds import LaplaceDpEvent

    columns = bought_columns(resolved)
    if not columns:
        return {}
    _refuse_what_cannot_buy(resolved, columns[0])
    assert resolved.source.bought_epsilon is not None
    for whose, epsilon in resolved.budgets.items():
        if epsilon <= resolved.source.bought_epsilon:
            raise SordinoError(
                f"The means of columns with missing = 'bought' cost ε = {resolved.source.bought_epsilon:g}, but {whose} is {epsilon:g} "
                "and must leave some for training; raise it or lower bought_epsilon in [data.options]."
            )
    return {LaplaceDpEvent(_noise_multiplier(resolved, columns)): 2 * len(columns)}


def _refuse_what_cannot_buy(resolved: Resolved, column: str) -> None:
    instead = f"give columns.{column} a number for missing"
    if resolved.method.unit != "example" or resolved.method.job is None:
        raise SordinoError(
            f"missing = 'bought' is priced for single rows, but method {resolved.experiment.method['name']!r} protects whole clients; "
            f"choose 'dp-sgd', or {instead}."
        )
    if resolved.experiment.engine.name != "simulate":
        raise SordinoError(
            f"missing = 'bought' works in simulations alone, but [engine] name is {resolved.experiment.engine.name!r}; {instead}."
        )


def refuse_cached_means(resolved: Resolved, net: Net, phases: Sequence[Phase]) -> None:
    """Refuse a frozen body, whose outputs are made of the rows before anything is bought."""
    columns = bought_columns(resolved)
    if columns and any(frozen_body(net, phase.trainable) for phase in phases):
        raise SordinoError(
            f"missing = 'bought' needs the rows themselves, but this tuning keeps what a frozen body makes of them; choose "
            f"tuning = 'full', or give columns.{columns[0]} a number for missing."
        )


def _noise_multiplier(resolved: Resolved, columns: Sequence[str]) -> float:
    assert resolved.source.bought_epsilon is not None
    return noise_multiplier(
        epsilon=resolved.source.bought_epsilon,
        statistics=2 * len(columns),
        replace_one=resolved.privacy.neighbours == "replace-one",
    )


def buy_means(resolved: Resolved, source: Source, sizes: Sequence[int], ask: AskClients) -> dict[str, float]:
    """The mean of each column in its own unit, which is charged."""
    survey = MeanSurvey(places=source.bought, noise_multiplier=_noise_multiplier(resolved, list(source.bought)))
    found = ask(survey)
    return {
        name: _mean(source, name, sum(found[f"total of {name}"]), sum(found[f"filled of {name}"]), sum(sizes))
        for name in source.bought
    }


def _mean(source: Source, name: str, total: float, filled: float, rows: int) -> float:
    """Held between the bounds; noise may have made the count tiny or negative, and then the mean is the middle."""
    column = source.layout[name]
    assert isinstance(column, Number) and column.low is not None and column.high is not None
    place = (total - (rows - filled) / 2) / filled if filled >= 1 else NOTHING
    return column.low + min(max(place, 0.0), 1.0) * (column.high - column.low)


def mean_facts(resolved: Resolved) -> dict[str, str]:
    """For the plan."""
    columns = bought_columns(resolved)
    if not columns:
        return {}
    return {
        "bought": f"the mean of {', '.join(columns)}, for missing values: ε {resolved.source.bought_epsilon:g} of each client's budget, "
        "Laplace noise; the training gets the rest"
    }
