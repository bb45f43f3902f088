"""What the runs of a study gave, one line a run in a file under git, so that a study goes on at another sitting or machine.

A line holds figures and no model: run folders may be thrown away. It names the settings by a fingerprint, so that a run whose settings
have changed counts as missing; and the commit and processor, since another processor may round otherwise.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.history import commit
from sordino.engine.record import RunRecord, read_summary
from sordino.files import to_json
from sordino.processor import processor


def fingerprint(table: Mapping[str, Any]) -> str:
    """Of all settings of a run, its seed among them."""
    return hashlib.sha256(to_json(table).encode()).hexdigest()[:16]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """One finished run."""

    cell: str
    seed: int
    settings: str
    """Their fingerprint."""
    figures: Mapping[str, float]
    epsilon: Mapping[str, float]
    """By view, at the end of the run."""
    seconds: float
    commit: str
    processor: str
    curve: Mapping[str, float] = field(default_factory=dict)
    """Accuracy by the number of rounds done, where it was measured more than once; runs up to 4912825 kept none."""

    @classmethod
    def read(cls, run: Path, *, cell: str, seed: int, settings: str, figures: Mapping[str, float]) -> Outcome:
        """What the folder of a finished run says."""
        summary = read_summary(run)
        rows = [row for row in RunRecord(run).read_metrics() if row.get("accuracy") is not None]
        curve = {str(row["round"] + 1): float(row["accuracy"]) for row in rows}
        return cls(
            cell=cell,
            seed=seed,
            settings=settings,
            figures=dict(figures),
            epsilon={view: float(told["epsilon"]) for view, told in summary["epsilon"].items()},
            seconds=round(float(summary["seconds"]), 1),
            commit=commit(),
            processor=processor(),
            curve=curve if len(curve) > 1 else {},
        )


class Outcomes:
    """All runs of one study that are known, in a file of lines.

    Lines with the same settings are from other processors, on which a run was made again. What is told is the run of the study's home,
    the processor that made most of its runs, since processors differ by tenths of points; and the first line where home made none.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        self._known: dict[str, Outcome] = {}
        self._by_processor: dict[tuple[str, str], Outcome] = {}
        for line in lines:
            told = json.loads(line)
            told["epsilon"] = {view: float(epsilon) for view, epsilon in told["epsilon"].items()}
            self._add(Outcome(**told))

    def __iter__(self) -> Iterator[Outcome]:
        return iter(self._known.values())

    def get(self, settings: str) -> Outcome | None:
        """The run with these settings, if it has been made."""
        return self._by_processor.get((self._home, settings)) or self._known.get(settings)

    def made_on(self, processor: str, settings: str) -> Outcome | None:
        """The run with these settings on such a processor."""
        return self._by_processor.get((processor, settings))

    def pair(self, one: str, other: str) -> tuple[Outcome, Outcome] | None:
        """Runs with these settings that one processor made both of: that of home, or the first pair that was written down."""
        for made_by in (self._home, *(made_by for made_by, settings in self._by_processor if settings == one)):
            if {(made_by, one), (made_by, other)} <= self._by_processor.keys():
                return self._by_processor[made_by, one], self._by_processor[made_by, other]
        return None

    @property
    def _home(self) -> str:
        """A tie goes to the one that was there first."""
        made = Counter(made_by for made_by, _ in self._by_processor)
        return max(made, key=made.__getitem__, default="")

    def keep(self, outcome: Outcome) -> None:
        """Add a run to the file."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(to_json(asdict(outcome)) + "\n")
        self._add(outcome)

    def _add(self, outcome: Outcome) -> None:
        self._known.setdefault(outcome.settings, outcome)
        self._by_processor.setdefault((outcome.processor, outcome.settings), outcome)
