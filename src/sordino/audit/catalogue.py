"""The audit of everything: every method in the registry, at every placement of the noise, in every view."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sordino.audit.auditing import audit_experiment
from sordino.core import SordinoError
from sordino.experiment import Experiment, experiment
from sordino.methods import METHODS

PLACEMENTS = ("central", "distributed", "local")
SETTINGS: dict[str, dict[str, Any]] = {
    "dp-pfeddsu": {"layers": 1, "share": 0.5, "mask": "global", "head_epochs": 1},
    "dp-sgd": {"batch_size": "full"},
    "ppsgd-steps": {"batch_size": "full"},
    "centaur-steps": {"batch_size": "full"},
}
"""Where a method's defaults do not suit a model this small."""
NOISE = {"central": 2.0, "distributed": 4.0, "local": 2.0}
"""Multipliers: with those of `distributed`, the server's ε is large and the public's small."""


def catalogue() -> list[tuple[str, str, Experiment]]:
    """Small experiments, by method and placement; 100 clients that all take part in each of three rounds."""
    made = []
    for member in METHODS:
        for placement in PLACEMENTS:
            table = {
                "name": f"{member.name}, {placement}",
                "seed": 2,
                "rounds": 3,
                "data": {"source": "digits", "clients": 100, "test": "public-split"},
                "model": {"name": "mlp", "hidden": [16, 8]},
                "method": {"name": member.name, **SETTINGS.get(member.name, {})},
                "privacy": {
                    "noise_multiplier": NOISE[placement],
                    "delta": 1e-4,
                    "clip_norm": 0.5,
                    "noise": placement,
                    "sampler": "everyone",
                },
            }
            made.append((member.name, placement, experiment(table)))
    return made


def audit_catalogue(
    *,
    budget_seconds: float,
    methods: Sequence[str] = (),
    progress: Callable[[str, int, int], None] = lambda stage, done, total: None,
) -> list[dict[str, Any]]:
    """Audit each for so long; one that is refused says why."""
    wanted = [entry for entry in catalogue() if not methods or entry[0] in methods]
    found = []
    for number, (method, placement, one) in enumerate(wanted, 1):
        shared = {"method": method, "noise": placement}
        try:
            found.append({**audit_experiment(one, budget_seconds=budget_seconds).to_json(), **shared, "refused": ""})
        except SordinoError as refused:
            found.append({**shared, "holds": True, "views": {}, "checks": [], "refused": str(refused)})
        progress("methods", number, len(wanted))
    return found
