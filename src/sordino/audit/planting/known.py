"""What is known of an experiment's data before any row is read: as a plan learns it, or as real nodes declared it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sordino.core import SordinoError
from sordino.data.preparation import Preparation
from sordino.data.settings import Kind
from sordino.data.source import describe
from sordino.engine.dealing import client_sizes
from sordino.engine.resolved import Resolved
from sordino.tuning import Task

Declared = Sequence[Mapping[str, Any]]
"""What the nodes of a run said of their rows when it began, as its record has it."""


@dataclass(frozen=True, kw_only=True)
class Known:
    """Public facts: how many rows each client has, and what a model takes and tells apart."""

    kind: Kind
    task: Task
    vocabulary: int
    sizes: list[int]

    @staticmethod
    def of(resolved: Resolved, declared: Declared = ()) -> Known:
        """Raises `SordinoError` where the rows are with real nodes, and no run has asked these yet."""
        if declared:
            said = Preparation.from_json(declared[0]["preparation"])
            task, sizes = Task(shape=said.shape, classes=len(said.classes)), [int(one["rows"]) for one in declared]
            return Known(kind=said.kind, task=task, vocabulary=said.vocabulary, sizes=sizes)
        try:
            facts = describe(resolved.source, seed=resolved.experiment.seed, test=resolved.test_rows)
            sizes = client_sizes(resolved)
        except SordinoError as error:
            if resolved.experiment.engine.name != "flower":
                raise
            raise SordinoError(
                f"How many rows clients have is not known here ({error}) An audit on Flower needs a data set that is here, as for "
                "`sordino rehearse`, or the folder of a run whose nodes have declared their rows."
            ) from error
        task = Task(shape=facts.shape, classes=facts.classes)
        return Known(kind=facts.kind, task=task, vocabulary=facts.vocabulary, sizes=sizes)
