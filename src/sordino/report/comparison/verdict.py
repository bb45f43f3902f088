"""Who wins at a budget, or that it is a tie, in one sentence."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sordino.report.comparison.entries import Entry
from sordino.report.comparison.significance import Difference, differences

SLACK = 1 + 1e-9
"""A budget is kept up to the rounding of its last digit."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The outcome at a budget: the entries that were compared, all differences, and a sentence."""

    budget: float
    compared: Sequence[Entry]
    differences: Sequence[Difference]
    winner: str | None
    """A contestant; None where it is a tie, or where there is nothing to compare."""
    sentence: str


def judge(entries: Sequence[Entry], *, budget: float | None, by: str) -> Verdict:
    """Compare what each contestant reaches within the budget, in ε of the entries' view.

    Without a budget, the smallest one within which every contestant that promises anything has a run.
    """
    budget = smallest_common_budget(entries) if budget is None else budget
    compared = within(entries, budget)
    found = differences({entry.label: entry.figures for entry in compared})
    winner, sentence = _decide(compared, found, by) if compared else (None, _nobody(entries))
    at = "Where nothing is promised (ε = ∞)" if math.isinf(budget) else f"At ε ≤ {budget:.4g}"
    return Verdict(budget=budget, compared=compared, differences=found, winner=winner, sentence=f"{at}, {sentence}")


def smallest_common_budget(entries: Sequence[Entry]) -> float:
    least: dict[str, float] = {}
    for entry in entries:
        least[entry.contestant] = min(entry.epsilon, least.get(entry.contestant, math.inf))
    return max((epsilon for epsilon in least.values() if math.isfinite(epsilon)), default=math.inf)


def within(entries: Iterable[Entry], budget: float) -> list[Entry]:
    """Of configurations that differ in nothing but how private they are, the least private that keeps to the budget."""
    chosen: dict[str, Entry] = {}
    for entry in entries:
        before = chosen.get(entry.line)
        if entry.epsilon <= budget * SLACK and (before is None or before.epsilon < entry.epsilon):
            chosen[entry.line] = entry
    return sorted(chosen.values(), key=lambda entry: -entry.mean)


def _nobody(entries: Sequence[Entry]) -> str:
    least = min((entry.epsilon for entry in entries), default=math.inf)
    told = "no run promises anything in this view" if math.isinf(least) else f"the smallest ε of any is {least:.4g}"
    return f"there is no run, and {told}; ask for a larger --epsilon, or run at this budget."


def _decide(compared: Sequence[Entry], found: Sequence[Difference], by: str) -> tuple[str | None, str]:
    leader = compared[0]
    rivals = _best_of_others(compared, leader)
    if not rivals:
        return None, f"there is one {by} alone, {leader.contestant}, so there is nothing to compare."
    against = {rival.label: _between(leader, rival, found) for rival in rivals}
    tied = [rival for rival in rivals if not against[rival.label].more_than_noise]
    correction = f"{len(found)} comparison{'s' if len(found) != 1 else ''} corrected for"
    if not tied:
        closest = against[rivals[0].label]
        return leader.contestant, (
            f"{leader.contestant} wins: {leader.mean:.1%} against {rivals[0].mean:.1%} of {rivals[0].contestant}, "
            f"more than noise (p = {closest.corrected:.2g}, {closest.pairs} seeds, {correction})."
        )
    names = _listed([leader.contestant, *(rival.contestant for rival in tied)])
    if all(against[rival.label].p is None for rival in tied):
        return None, f"nobody can say who of {names} is better, because they share fewer than two seeds; run more."
    beaten = [rival.contestant for rival in rivals if rival not in tied]
    rest = f", all better than {_listed(beaten)}" if beaten and len(tied) > 1 else ""
    nearest = against[tied[0].label]
    return None, (
        f"it is a tie between {names}{rest}: the best two differ by {100 * nearest.mean:.1f} points, which seeds alone may do "
        f"({_p(nearest)}, {nearest.pairs} seeds, {correction})."
    )


def _best_of_others(compared: Sequence[Entry], leader: Entry) -> list[Entry]:
    best: dict[str, Entry] = {}
    for entry in compared:
        if entry.contestant != leader.contestant:
            best.setdefault(entry.contestant, entry)
    return list(best.values())


def _between(leader: Entry, rival: Entry, found: Sequence[Difference]) -> Difference:
    return next(one for one in found if {one.first, one.second} == {leader.label, rival.label})


def _p(difference: Difference) -> str:
    return "untested" if difference.corrected is None else f"p = {difference.corrected:.2g}"


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
