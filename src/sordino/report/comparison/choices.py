"""Whether somebody paid for choosing the best of what was tried."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sordino.report.comparison.comparing import Contest
from sordino.sweeps.results import FILE, read_results


def comparison_content(contests: Sequence[Contest], folders: Sequence[Path]) -> dict[str, Any]:
    """All that was found, as plain data, with what may be said of a choice among it."""
    tried = len({entry.key for contest in contests for entry in contest.entries})
    return {
        "contests": [contest.to_json() for contest in contests],
        "configurations_tried": tried,
        "about_the_choice": about_choice(tried, folders),
    }


def about_choice(tried: int, folders: Sequence[Path], *, before: int = 0) -> str:
    """What sweeps with `--choose` chose at which ε; else, that looking at many and taking the best has no price here.

    `before` counts trials that settings were chosen by and that are not among these.
    """
    priced = [choice["sentence"] for folder in folders if (choice := _choice(folder))]
    if priced:
        return " ".join(priced)
    if tried + before < 2:
        return ""
    if before:
        return (
            f"{tried} configurations are shown, and {before} trials on the same data chose their settings before; neither that choice nor "
            "one among these is covered by any ε above."
        )
    return (
        f"{tried} configurations were tried on the private data; the choice among them is not covered by any ε above."
    )


def _choice(folder: Path) -> dict[str, Any] | None:
    return read_results(folder).get("choice") if (folder / FILE).exists() else None
