"""What is known of a run before any row is read, and what is said of its costs in the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sordino.data.settings import SourceFacts
from sordino.engine.costing.made_up import Roster, Shapes
from sordino.engine.row_checks import Looked
from sordino.engine.setup import Parts
from sordino.experiment import EvaluationRounds

PHASES = ("start", "features", "rounds", "evaluation", "end")


@dataclass(frozen=True, kw_only=True)
class Costs:
    """Seconds of each phase of a run, and the most memory that its process will hold."""

    start: float
    """Imports, rows, prices, and the model's first weights."""
    features: float
    """What a frozen body makes of all rows, once."""
    rounds: float
    evaluation: float
    end: float
    """ε of every client in every view, for the summary."""
    memory_bytes: int
    """The process' peak, libraries included."""
    assumed: str
    """What was taken for granted; nothing where nothing was."""
    processor: str
    threads: int

    @property
    def seconds(self) -> float:
        return self.start + self.features + self.rounds + self.evaluation + self.end

    def to_json(self) -> dict[str, Any]:
        return {
            "seconds": self.seconds,
            **{name: getattr(self, name) for name in PHASES},
            "memory_bytes": self.memory_bytes,
            "assumed": self.assumed,
            "processor": self.processor,
            "threads": self.threads,
        }


@dataclass(frozen=True, kw_only=True)
class Subject:
    """What is known of a run before any row is read."""

    parts: Parts
    facts: SourceFacts
    sizes: Sequence[int]
    """Rows that each client trains on."""
    folder: Path
    before: float
    """Seconds that this process has taken for what a run does as well: imports and prices."""
    looking: float
    """Seconds of the first look at the data, which a run takes at least: it imports what reads them."""
    evaluations: EvaluationRounds
    looked: Looked

    @property
    def shapes(self) -> Shapes:
        return Shapes.of(self.facts, self.parts.resolved.source.number)

    @property
    def rows(self) -> int:
        return self.facts.n_train + self.facts.n_test

    @property
    def roster(self) -> Roster:
        resolved = self.parts.resolved
        trained, data = sum(self.sizes), resolved.experiment.data
        charged = (self.facts.n_train - trained) / trained if data.evaluation_is_charged else 0.0
        split = data.client_split
        kept = 1 - split.validation - split.test if split else 1.0
        return Roster(
            sizes=self.sizes,
            held_out=charged,
            validation=split.validation / kept if split else 0.0,
            test=split.test / kept if split else 0.0,
            late=0 if resolved.method.pooled else data.late_clients,
        )
