"""How far a sweep is, and how long the rest may take."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sordino.engine.moment import Moment
from sordino.sweeps.pool import Ended

SHORTEST_WATCH_SECONDS = 1.0
"""Before that, nobody can say how long the rest takes."""


@dataclass(frozen=True, kw_only=True)
class Progress:
    """What an onlooker is told each time something has happened."""

    total: int
    done: int
    failed: int
    running: Mapping[str, Moment]
    """What is at work, by its label."""
    seconds_left: float | None
    ended: str = ""
    """The label of the run that has just ended, if one has."""
    problem: str = ""
    """Why it failed; nothing where it did not."""
    note: str = ""
    """A sentence to keep on the screen."""

    @property
    def over(self) -> int:
        return self.done + self.failed


Onlooker = Callable[[Progress], None]


class Tracker:
    """Keeps count of the runs that are to be done; each weighs what its plan said that it would take."""

    def __init__(self, labels: Sequence[str], planned_work: Sequence[float], look: Onlooker) -> None:
        self._labels, self._look = labels, look
        self._weights = [max(work, 1e-3) for work in planned_work]
        self._shares = [0.0] * len(labels)
        self._running: dict[str, Moment] = {}
        self._done = self._failed = 0
        self._begin = time.monotonic()

    def __call__(self, number: int, news: Moment | Ended) -> None:
        label = self._labels[number]
        if isinstance(news, Moment):
            self._running[label] = news
            self._shares[number] = max(self._shares[number], self._share(news))
            self._tell()
            return
        self._running.pop(label, None)
        self._shares[number] = 1.0
        self._failed += bool(news.problem)
        self._done += not news.problem
        self._tell(ended=label, problem=news.problem)

    @staticmethod
    def _share(moment: Moment) -> float:
        return moment.done / moment.total if moment.stage == "training" and moment.total else 0.0

    def _tell(self, *, ended: str = "", problem: str = "") -> None:
        self._look(
            Progress(
                total=len(self._labels),
                done=self._done,
                failed=self._failed,
                running=dict(self._running),
                seconds_left=self._seconds_left(),
                ended=ended,
                problem=problem,
            )
        )

    def _seconds_left(self) -> float | None:
        """As much as has passed for the part that is done, for each such part that is not."""
        passed = time.monotonic() - self._begin
        done = sum(weight * share for weight, share in zip(self._weights, self._shares, strict=True))
        return passed * (sum(self._weights) - done) / done if done and passed > SHORTEST_WATCH_SECONDS else None
