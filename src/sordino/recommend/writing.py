"""The recommended experiment as a file, with the evidence above it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from sordino.experiment import Table
from sordino.recommend.corners import in_words
from sordino.recommend.searching import Found
from sordino.recommend.stand_in import StandIn
from sordino.sweeps.cases import merged

SECTIONS = ("data", "model", "start", "tuning", "method", "privacy", "engine")


def recommended_table(table: Table, stand_in: StandIn, found: Found, epsilon: float) -> Table:
    """The file's own table with what is recommended; a public start is trained on the real public set, not on a part of it."""
    changes = in_words(found.best)
    if changes.get("start", {}).get("data"):
        changes["start"] = stand_in.real_start
    privacy = {key: value for key, value in table.get("privacy", {}).items() if key != "noise_multiplier"}
    return {
        **merged({**table, "privacy": privacy}, changes),
        "privacy": {**privacy, **changes.get("privacy", {}), "epsilon": epsilon},
    }


def as_file(table: Table, evidence: Sequence[str]) -> str:
    """TOML: comments with the evidence, what stands at the top, then one section each."""
    top = [f"{key} = {_value(value)}" for key, value in table.items() if key not in SECTIONS and value is not None]
    parts = ["\n".join(f"# {line}" if line else "#" for line in evidence), "\n".join(top)]
    for name in SECTIONS:
        section = table.get(name)
        if isinstance(section, str):
            section = {"name": section}
        if section:
            lines = [f"{_key(key)} = {_value(value)}" for key, value in section.items() if value is not None]
            parts.append("\n".join([f"[{name}]", *lines]))
    return "\n\n".join(parts) + "\n"


def _key(key: str) -> str:
    return (
        key
        if key.replace("_", "").replace("-", "").isalnum() and key.isascii()
        else json.dumps(key, ensure_ascii=False)
    )


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(key)} = {_value(one)}" for key, one in value.items() if one is not None) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_value, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def evidence(found: Found, stand_in: StandIn, *, epsilon: float, sentence: str) -> list[str]:
    """What is told above the file and in the terminal."""
    told = [
        f"Recommended at ε = {epsilon:g} by trials on public data alone; no private row was read, so the choice costs nothing.",
        *(f"Stand-in: {note}." for note in stand_in.notes),
        f"Trial with {len(found.rows[0]['accuracies'])} seeds that the search did not use: {sentence}",
        f"The public start alone, before anybody trains, reaches {found.start_alone:.1%} here. Starts come from the same set as the "
        "stand-in; on private rows they are as good as the public set is like them.",
        "Tried, best first, one seed each:",
        *(f"  {one['accuracy']:.1%}  {one['settings']}" for one in found.tried),
    ]
    return [*told, *([f"There was no time for {found.cut} more; give more with --seconds."] if found.cut else [])]
