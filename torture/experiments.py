"""Small experiments on embedded data, one for every method a tree knows; each takes about a second."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, Literal

from torture.toml import Table

Source = Literal["seeded", "secure"]
SOURCES: tuple[Source, Source] = ("seeded", "secure")
BUDGET = 8.0

_SGD = {"epochs": 1, "batch_size": 16, "learning_rate": 0.1}
_STEPS = {"where": "clients", "local_steps": 2, "batch_size": 16, "learning_rate": 0.1}
_HEADS = {**_SGD, "head_epochs": 1, "head_learning_rate": 0.1}

_SETTINGS: dict[str, list[Table]] = {
    "dp-sgd": [_STEPS],
    "centaur": [_HEADS],
    "dp-pfeddsu": [{**_HEADS, "layers": 1}],
}
"""What single methods need; for all others the first of `_GENERAL` that the tree accepts is taken."""

_GENERAL: list[Table] = [_SGD, _HEADS, {"learning_rate": 0.1}, {}]


def small(*, rounds: int, method: Table, source: Source, budget: float | None = BUDGET, **privacy: Any) -> Table:
    """Twelve clients with digits. Secure runs are bound by an ε, seeded ones by nothing."""
    promise = {"epsilon": budget} if source == "secure" and budget is not None else {"noise_multiplier": 1.0}
    return {
        "name": f"torture-{method['name']}",
        "seed": 3,
        "rounds": rounds,
        "data": {
            "source": "digits",
            "clients": 12,
            "partition": {"name": "dirichlet", "alpha": 1.0, "min_examples": 4},
        },
        "model": {"name": "mlp", "hidden": [8]},
        "method": dict(method),
        "privacy": {
            **promise,
            "delta": 1e-3,
            "clip_norm": 0.5,
            "expected_cohort": 4,
            "noise_source": source,
            **privacy,
        },
        "engine": {"schedule": "workers", "workers": 1, "evaluate_every": 1},
    }


def candidates(method: str, *, rounds: int, source: Source) -> Iterator[Table]:
    """Experiments with this method, the likeliest first; which of them are allowed, only the tree can say."""
    for budget in (BUDGET, None):
        for settings in _SETTINGS.get(method, []) + _GENERAL:
            for noise in ("central", "distributed", "local"):
                chosen = {"name": method, **settings}
                table = small(rounds=rounds, method=chosen, source=source, budget=budget, noise=noise)
                yield from _with_test_split(table) if source == "secure" else [table]


def _with_test_split(table: Table) -> Iterator[Table]:
    """Secure runs test on rows that are declared public, where a tree asks for that."""
    declared = copy.deepcopy(table)
    declared["data"]["test"] = "public-split"
    yield declared
    yield table
