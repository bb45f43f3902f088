"""Columns that are filled or scaled by statistics of the clients' rows: their price, their purchase, and what is made of them.

Of the released sums over all clients, with n rows of which m have a value (m = n where nothing may be missing),

    mean place = (total − (n − m) / 2) / m,    mean square = (squares − (n − m) / 2) / m.

The mean takes the place of missing values; mean and standard deviation scale. Noise of the training is worked out for what the budget
leaves.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from sordino.core import SordinoError
from sordino.data.columns import Number
from sordino.data.source import Bought
from sordino.engine.asking import ask_clients
from sordino.engine.bought_survey import NOTHING, BoughtSurvey, numbers_of
from sordino.engine.dealing import Federated
from sordino.engine.features import frozen_body
from sordino.engine.federation import FederationServer
from sordino.engine.resolved import Resolved
from sordino.models import Net
from sordino.tuning import Phase
from sordino.tuning.gradient_statistics import noise_multiplier

if TYPE_CHECKING:
    from sordino.engine.setup import Setup
    from sordino.privacy.event_kinds import DpEvent

BOUGHT = "bought statistics"
"""The entry of a checkpoint that keeps what was bought; released, so not secret."""


def bought_columns(resolved: Resolved) -> dict[str, Number]:
    declared = resolved.source.declared_columns
    return {name: column for name, column in declared.items() if isinstance(column, Number) and column.bought}


def charges_for_statistics(resolved: Resolved) -> Mapping[DpEvent, int]:
    """What every client pays for them; runs that cannot buy any, and budgets that do not cover them, are refused."""
    from sordino.privacy.event_kinds import LaplaceDpEvent

    columns = bought_columns(resolved)
    if not columns:
        return {}
    _refuse_what_cannot_buy(resolved, columns)
    assert resolved.source.bought_epsilon is not None
    for whose, epsilon in resolved.budgets.items():
        if epsilon <= resolved.source.bought_epsilon:
            raise SordinoError(
                f"The bought statistics of columns cost ε = {resolved.source.bought_epsilon:g}, but {whose} is {epsilon:g} "
                "and must leave some for training; raise it or lower bought_epsilon in [data.options]."
            )
    return {LaplaceDpEvent(_noise_multiplier(resolved)): _count(columns)}


def _refuse_what_cannot_buy(resolved: Resolved, columns: Mapping[str, Number]) -> None:
    what, instead = _asked(columns)
    if resolved.method.unit != "example" or resolved.method.job is None:
        raise SordinoError(
            f"{what} is priced for single rows, but method {resolved.experiment.method['name']!r} protects whole clients; "
            f"choose 'dp-sgd', or {instead}."
        )
    if resolved.experiment.engine.name != "simulate":
        raise SordinoError(
            f"{what} works in simulations alone, but [engine] name is {resolved.experiment.engine.name!r}; {instead}."
        )


def refuse_cached_statistics(resolved: Resolved, net: Net, phases: Sequence[Phase]) -> None:
    """Refuse a frozen body, whose outputs are made of the rows before anything is bought."""
    columns = bought_columns(resolved)
    if columns and any(frozen_body(net, phase.trainable) for phase in phases):
        what, instead = _asked(columns)
        raise SordinoError(
            f"{what} needs the rows themselves, but this tuning keeps what a frozen body makes of them; choose tuning = 'full', "
            f"or {instead}."
        )


def _asked(columns: Mapping[str, Number]) -> tuple[str, str]:
    """The setting of the first of them, and what may be done without it."""
    name, column = next(iter(columns.items()))
    if column.buys_missing:
        return "missing = 'bought'", f"give columns.{name} a number for missing"
    return "scaling = 'bought'", f"leave scaling out of columns.{name}, and its bounds scale it"


def _count(columns: Mapping[str, Number]) -> int:
    return sum(len(numbers_of(column)) for column in columns.values())


def _noise_multiplier(resolved: Resolved) -> float:
    assert resolved.source.bought_epsilon is not None
    return noise_multiplier(
        epsilon=resolved.source.bought_epsilon,
        statistics=_count(bought_columns(resolved)),
        replace_one=resolved.privacy.neighbours == "replace-one",
    )


def buy_statistics(setup: Setup, federation: FederationServer) -> Tensor:
    """Place and deviation of each column, as a model is fed them before anything is bought. This is charged."""
    resolved, places = setup.resolved, setup.loaded.source.bought
    columns = bought_columns(resolved)
    survey = BoughtSurvey(columns=columns, places=places, noise_multiplier=_noise_multiplier(resolved))
    found = ask_clients(federation, survey, setup.space.read(setup.net))
    sums = {name: sum(each) for name, each in found.items()}
    scale = NOTHING * survey.noise_multiplier * math.sqrt(2 * len(setup.loaded.sizes))
    rows = sum(setup.loaded.sizes)
    made = [_made_of(sums, name, rows=rows, noise=scale) for name in places]
    return torch.tensor(made, dtype=torch.float64).reshape(-1, 2)


def _made_of(sums: Mapping[str, float], name: str, *, rows: int, noise: float) -> tuple[float, float]:
    """The mean between the bounds, and the standard deviation where squares were bought; `noise` is the deviation of a sum's.

    Noise may have made the count tiny or negative, and then the mean is the middle. A variance below the deviation of its own noise
    cannot be told from it, and counts as that much.
    """
    filled = sums.get(f"filled of {name}", float(rows))

    def mean(what: str) -> float:
        found = (sums[f"{what} of {name}"] - (rows - filled) * NOTHING) / filled if filled >= 1 else NOTHING
        return min(max(found, 0.0), 1.0)

    place = 2 * mean("total") - 1
    if f"squares of {name}" not in sums:
        return place, 1.0
    least = min(1.0, noise / max(1.0, filled))
    return place, math.sqrt(max(least, mean("squares") - place**2))


def with_bought(setup: Setup, bought: Tensor) -> Setup:
    """The same run whose rows are filled and scaled by what was bought."""
    assert isinstance(setup.loaded, Federated)
    source = setup.loaded.source
    made = {
        name: Bought(place=place, deviation=deviation)
        for name, (place, deviation) in zip(source.bought, bought.tolist(), strict=True)
    }
    return dataclasses.replace(setup, loaded=dataclasses.replace(setup.loaded, source=source.with_bought(made)))


def statistic_facts(resolved: Resolved) -> dict[str, str]:
    """For the plan."""
    columns = bought_columns(resolved)
    if not columns:
        return {}
    filled = [name for name, column in columns.items() if column.buys_missing]
    scaled = [name for name, column in columns.items() if column.buys_scaling]
    what = [f"the mean of {', '.join(filled)}, for missing values"] if filled else []
    what += [f"the mean and the spread of {', '.join(scaled)}, to scale by"] if scaled else []
    return {
        "bought": f"{' and '.join(what)}: ε {resolved.source.bought_epsilon:g} of each client's budget, "
        "Laplace noise; the training gets the rest"
    }
