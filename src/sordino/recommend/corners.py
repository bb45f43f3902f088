"""The corners that are tried: first where a model starts, what is trained and how far it is clipped; then how it is trained."""

from __future__ import annotations

from typing import Any

from sordino.experiment import MEMBERS, Table
from sordino.sweeps.cases import Case, merged

AS_IT_STANDS = "the file as it stands"
CLIPS = (0.1, 0.3, 1.0)
METHODS = ("dp-fedavg", "dp-fedavgm", "dp-fedadam")
"""Shared models at the client level; a file with another method keeps it."""


def first_corners(start: Table) -> list[Case]:
    """Start and tuning by clip: from scratch, from public data with everything tuned, and with the head alone."""
    ways: dict[str, Table] = {
        "public start, head": {"start": start, "tuning": "head"},
        "public start": {"start": start, "tuning": "full"},
        "scratch": {"start": "scratch", "tuning": "full"},
    }
    return [
        Case(name=f"{name}, clip {clip:g}", settings={**changes, "privacy": {"clip_norm": clip}})
        for clip in CLIPS
        for name, changes in ways.items()
    ]


def second_corners(best: Case, table: Table) -> list[Case]:
    """Around the best so far: other methods, half and twice the rounds, half and twice the local work, a clip that moves."""
    here = merged(table, best.settings)
    found: dict[str, Table] = {}
    method = _named(here.get("method", "dp-fedavg"))
    if method["name"] in METHODS:
        local = {key: method[key] for key in ("epochs", "batch_size", "learning_rate") if key in method}
        for name in METHODS:
            if name != method["name"]:
                found[name] = {"method": {"name": name, **local}}
    rounds = int(here["rounds"])
    found["half the rounds"] = {"rounds": max(1, rounds // 2)}
    found["twice the rounds"] = {"rounds": 2 * rounds}
    epochs = method.get("epochs", 1)
    if isinstance(epochs, int) and "noisy_steps" not in method:
        found["twice the epochs"] = {"method": {**method, "epochs": 2 * epochs}}
    if "mechanism" not in here.get("privacy", {}):
        found["a clip that moves"] = {"privacy": {"mechanism": "adaptive-clip"}}
    return [
        Case(name=f"{best.name}, {name}", settings=merged(best.settings, changes)) for name, changes in found.items()
    ]


def _named(member: Any) -> Table:
    return {"name": member} if isinstance(member, str) else dict(member)


def in_words(case: Case) -> Table:
    """The settings of a case with every member as a table, as a file is written."""
    return {key: _named(value) if key in MEMBERS else value for key, value in case.settings.items()}
