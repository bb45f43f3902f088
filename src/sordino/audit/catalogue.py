"""The audit of everything: every method and every mechanism in the registries, at every placement of the noise, in every view."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
TURNS = {"participation_cap": 3, "expected_cohort": None}
PUBLIC = {"source": "mnist5k", "visibility": "public"}
MECHANISMS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "laplace": ("dp-fedavg", {}, {}),
    "noise-schedule": ("dp-fedavg", {"decay": 0.2}, {}),
    "adaptive-clip": ("dp-fedavg", {}, {}),
    "banded": ("dp-fedavg", {}, {"rounds": 9, "privacy": TURNS}),
    "noise-schedule, on examples": ("dp-sgd", {"decay": 0.2}, {}),
    "adaptive-clip, on examples": ("dp-sgd", {}, {}),
    "gep": ("dp-sgd", {"public": PUBLIC, "anchors": 64, "basis": 16}, {}),
}
"""Mechanisms besides the plain Gaussian one, with the method that each is tried in, its settings, and what else it needs."""
NODES = 3


@dataclass(frozen=True, kw_only=True)
class Case:
    """One small experiment of the catalogue."""

    label: str
    placement: str
    experiment: Experiment


def catalogue() -> list[Case]:
    """Small experiments; 100 clients that all take part in each of three rounds, or take turns where a mechanism needs turns."""
    plain = [_case(member.name, member.name, {}, {}, placement) for member in METHODS for placement in PLACEMENTS]
    others = [
        _case(f"{method}, {label}", method, {"name": label.split(",")[0], **settings}, changes, placement)
        for label, (method, settings, changes) in MECHANISMS.items()
        for placement in PLACEMENTS
    ]
    return plain + others


def _case(label: str, method: str, mechanism: dict[str, Any], changes: dict[str, Any], placement: str) -> Case:
    privacy = {
        "noise_multiplier": NOISE[placement],
        "delta": 1e-4,
        "clip_norm": 0.5,
        "noise": placement,
        "sampler": "everyone",
        **({"mechanism": mechanism} if mechanism else {}),
        **changes.get("privacy", {}),
    }
    table = {
        "name": f"{label}, {placement}",
        "seed": 2,
        "rounds": changes.get("rounds", 3),
        "data": {"source": "digits", "clients": 100, "test": "public-split"},
        "model": {"name": "mlp", "hidden": [16, 8]},
        "method": {"name": method, **SETTINGS.get(method, {})},
        "privacy": privacy,
    }
    return Case(label=label, placement=placement, experiment=experiment(table))


def audit_catalogue(
    *,
    budget_seconds: float,
    methods: Sequence[str] = (),
    progress: Callable[[str, int, int], None] = lambda stage, done, total: None,
) -> list[dict[str, Any]]:
    """Audit each for so long; one that is refused says why."""
    wanted = [case for case in catalogue() if not methods or case.label in methods]
    found = []
    for number, case in enumerate(wanted, 1):
        shared = {"method": case.label, "noise": case.placement}
        try:
            audited = audit_experiment(case.experiment, budget_seconds=budget_seconds).to_json()
            found.append({**audited, **shared, "refused": ""})
        except SordinoError as refused:
            found.append({**shared, "holds": True, "views": {}, "checks": [], "refused": str(refused)})
        progress("methods", number, len(wanted))
    return found
