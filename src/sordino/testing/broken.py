"""What a check raises."""

from __future__ import annotations


class Broken(AssertionError):
    """A part does not keep the contract of its axis; the sentence says how."""


def demand(kept: bool, sentence: str) -> None:
    """Raise `Broken` with this sentence unless the contract is kept."""
    if not kept:
        raise Broken(sentence)
