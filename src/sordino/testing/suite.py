"""Which checks a part has to pass: those of its axis."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

from torch import nn

from sordino.core import SordinoError
from sordino.data.partition import PARTITIONERS
from sordino.methods import METHODS
from sordino.models import MODELS
from sordino.outside import imported, paths_beside
from sordino.pretrain import STARTS
from sordino.privacy.mechanisms import MECHANISMS
from sordino.privacy.samplers import SAMPLERS
from sordino.registry import Registry
from sordino.testing.mechanisms import MECHANISM_CHECKS
from sordino.testing.methods import METHOD_CHECKS
from sordino.testing.models import MODEL_CHECKS
from sordino.testing.partitioners import PARTITIONER_CHECKS
from sordino.testing.samplers import SAMPLER_CHECKS
from sordino.testing.starts import START_CHECKS
from sordino.testing.tables import Table, contract_table
from sordino.testing.tunings import TUNING_CHECKS
from sordino.tuning import TUNINGS

Check = Callable[[Table], None]
_AXES: tuple[Registry[Any], ...] = (METHODS, STARTS, TUNINGS, MECHANISMS, SAMPLERS, MODELS, PARTITIONERS)


def _in_an_experiment(check: Check) -> Check:
    @wraps(check)
    def checked(method: Table) -> None:
        check(contract_table(method))

    return checked


CHECKS: dict[str, tuple[Check, ...]] = {
    "method": tuple(_in_an_experiment(check) for check in METHOD_CHECKS),
    "start": START_CHECKS,
    "tuning": TUNING_CHECKS,
    "mechanism": MECHANISM_CHECKS,
    "sampler": SAMPLER_CHECKS,
    "model": MODEL_CHECKS,
    "partitioner": PARTITIONER_CHECKS,
}
"""For each axis, checks that take the table of a member: its name and its settings."""


def axis_of(name: str) -> str:
    """The axis that a part belongs to, by its name or its `module:Class`; a sentence where there is none, or more than one."""
    refusals: dict[str, SordinoError] = {}
    for registry in _AXES:
        try:
            registry[name]
        except SordinoError as refusal:
            refusals[registry.axis] = refusal
    found = [axis for axis in CHECKS if axis not in refusals]
    if not found:
        return _axis_by_bases(name, refusals)
    if len(found) > 1:
        raise SordinoError(
            f"{name!r} should be a part of one axis, but got {' and '.join(found)}; say which with --axis."
        )
    return found[0]


def _axis_by_bases(name: str, refusals: Mapping[str, SordinoError]) -> str:
    """A function makes a model; a class is refused by what it inherits, or for inheriting nothing of ours."""
    if ":" not in name:
        everywhere = (
            f"There is no part called {name!r} on any axis ({', '.join(CHECKS)}); name your own as module:Class."
        )
        raise SordinoError(paths_beside(name, axis="part") or everywhere)
    part = imported(name, axis="part")
    if not isinstance(part, type) or issubclass(part, nn.Module):
        return "model"
    for registry in _AXES:
        if registry.kind in part.__mro__:
            raise refusals[registry.axis]
    raise SordinoError(
        f"{name!r} must inherit the base of its axis, but inherits none: Averaging (or Method) for a method, Tuning, Mechanism, "
        "CohortSampler or Start; a model needs build(inputs, classes), or must be a function of (shape, classes), and a partitioner "
        "needs split."
    )
