"""The small experiment in which parts are tried."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Table = Mapping[str, Any]

ROUNDS = 2


def contract_table(method: Table | str, **changes: Any) -> dict[str, Any]:
    """A small federation on embedded data in which everybody takes part and every upload has noise of its own.

    Args:
        method: the method's name, or a table of its name and settings.
        changes: whole sections to put in place of those below, such as `tuning="head"`.

    Example:
        `sordino.run(contract_table({"name": "my_method:MyMethod", "mu": 0.1}), out="runs/trial")`
    """
    return {
        "seed": 5,
        "rounds": ROUNDS,
        "data": {"source": "digits", "clients": 4, "client_test_rows": 0, "options": {"limit": 90, "test_limit": 100}},
        "model": {"name": "mlp", "hidden": [6]},
        "start": "scratch",
        "method": method,
        "privacy": {"noise": "local", "noise_multiplier": 1.0, "clip_norm": 0.5, "sampler": "everyone"},
        "engine": {"workers": 1},
        **changes,
    }
