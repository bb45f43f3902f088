"""Which checks a part has to pass: those of its axis."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps

from sordino.core import SordinoError
from sordino.data.partition import PARTITIONERS
from sordino.methods import METHODS
from sordino.models import MODELS
from sordino.outside import imported
from sordino.pretrain import STARTS
from sordino.privacy.mechanisms import MECHANISMS
from sordino.privacy.samplers import SAMPLERS
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
    for registry in (METHODS, STARTS, TUNINGS, MECHANISMS, SAMPLERS, MODELS, PARTITIONERS):
        try:
            registry[name]
        except SordinoError as refusal:
            refusals[registry.axis] = refusal
    found = [axis for axis in CHECKS if axis not in refusals]
    if not found and ":" in name and not isinstance(imported(name, axis="part"), type):
        return "model"
    if len(found) != 1:
        got = " and ".join(found) if found else "none of them"
        why = f": {refusals['method']}" if not found else ""
        raise SordinoError(
            f"{name!r} should be a part of one axis ({', '.join(CHECKS)}), but got {got}; say which with --axis{why}"
        )
    return found[0]
