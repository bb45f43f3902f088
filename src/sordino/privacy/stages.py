"""Which rounds cost the same: stages of a mechanism, counted without walking through millions of rounds where that can be."""

from __future__ import annotations

import math
from collections.abc import Callable

from sordino.core import SordinoError

Stages = dict[int, int]
"""The first round of each stage, and how many rounds it has."""

MOST_COUNTED = 1_000_000
"""Rounds that are looked at one by one, which takes about a second."""
MOST_STAGES = 10_000
"""Stages with a price each: pricing them takes a second or two, and a calibration prices them a dozen times."""


def one_stage(rounds: range) -> Stages:
    """All rounds cost the same."""
    return {rounds[0]: len(rounds)} if rounds else {}


def counted_stages(stage: Callable[[int], int], rounds: range) -> Stages:
    """Stages of a mechanism that says for single rounds alone in which they are."""
    if len(rounds) > MOST_COUNTED:
        raise SordinoError(
            f"A mechanism whose price changes from round to round is planned for up to {MOST_COUNTED:,} rounds, but got {len(rounds):,}; "
            "plan fewer [rounds], or choose mechanism = 'gaussian'."
        )
    first: dict[int, int] = {}
    times: dict[int, int] = {}
    for number in rounds:
        place = stage(number)
        first.setdefault(place, number)
        times[place] = times.get(place, 0) + 1
    return {first[place]: count for place, count in times.items()}


def blocks(rounds: range, length: int) -> Stages:
    """Stages of `length` rounds each, counted from round 0."""
    if not rounds:
        return {}
    numbers = range(rounds[0] // length, rounds[-1] // length + 1)
    if len(numbers) > MOST_STAGES:
        raise SordinoError(
            f"A schedule of noise is priced step by step, up to {MOST_STAGES:,} steps, but got {len(numbers):,}; raise `every` in "
            "[privacy] mechanism, or plan fewer rounds."
        )
    stages = (_between(rounds, number * length, (number + 1) * length) for number in numbers)
    return {stage[0]: len(stage) for stage in stages if stage}


def multiples_and_others(rounds: range, of: int) -> Stages:
    """Two stages: the rounds that `of` divides, and the rest."""
    found = _multiples(rounds, of)
    others = len(rounds) - len(found)
    rest = {next(number for number in rounds if number % of): others} if others else {}
    return {**one_stage(found), **rest}


def _between(rounds: range, low: int, high: int) -> range:
    """The rounds that are at least `low` and below `high`."""
    place = (
        max(0, math.ceil((low - rounds.start) / rounds.step)),
        max(0, math.ceil((high - rounds.start) / rounds.step)),
    )
    return rounds[place[0] : place[1]]


def _multiples(rounds: range, of: int) -> range:
    """The rounds that `of` divides: every so-manieth, from the first on that solves start + k·step ≡ 0."""
    shared = math.gcd(rounds.step, of)
    if rounds.start % shared:
        return rounds[:0]
    every = of // shared
    first = (-rounds.start // shared) * pow(rounds.step // shared, -1, every) % every
    return rounds[first::every]
