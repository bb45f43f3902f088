"""Words of private tables that nobody declared: a model's inputs and outputs would tell them to everybody."""

from __future__ import annotations

from typing import Protocol

from sordino.core import SordinoError
from sordino.engine.resolved import Resolved


class Guessing(Protocol):
    """What is known of a source, loaded or not."""

    @property
    def guessed(self) -> tuple[str, ...]: ...


def refuse_guessed_words(resolved: Resolved, source: Guessing) -> None:
    """A secure run publishes the words of its columns and classes with the model, so they must not come from private rows."""
    if resolved.simulated or not source.guessed:
        return
    raise SordinoError(
        f"[data] source {resolved.experiment.data.source!r} has columns whose words nobody declared ({', '.join(source.guessed)}), and "
        "a secure run does not publish words of private rows; in [data.options], write columns.NAME = { kind = 'category', values = "
        "[...] } for each column, and classes = [...] for the label."
    )
