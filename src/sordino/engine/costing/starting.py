"""What comes before the first round: rows are read, and a start is made of public data."""

from __future__ import annotations

import dataclasses
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sordino.data.settings import SourceFacts
from sordino.data.source import Source, load
from sordino.engine.building import Model, start_context
from sordino.engine.costing.process_memory import forget_peak, peak, resident
from sordino.engine.resolved import Resolved
from sordino.pretrain.start import Start
from sordino.pretrain.store import RECORD, STORE_VARIABLE, store_folder
from sordino.threads import compute_threads, threads_of

SECONDS_OF_START = 0.6
"""How long a start is tried."""
FEW_ROWS, ROWS_READ = 64, 512
"""Rows that are brought to size when reading is tried; of most formats, the file is read whole all the same."""


@dataclass(frozen=True, kw_only=True)
class Taken:
    """Seconds, and the most bytes at once besides those that were held before."""

    seconds: float
    memory: int


class _Enough(Exception):
    """A start has been tried for long enough."""


def reading(resolved: Resolved, facts: SourceFacts) -> Taken:
    """What reading the rows takes, reckoned from a part of them."""
    few = _read(resolved, FEW_ROWS)
    if resolved.source.resize is None:
        return few
    more = _read(resolved, ROWS_READ)
    slope = max(0.0, more.seconds - few.seconds) / (ROWS_READ - FEW_ROWS)
    return Taken(seconds=few.seconds + slope * (facts.n_train + facts.n_test), memory=more.memory)


def _read(resolved: Resolved, rows: int) -> Taken:
    source = resolved.source
    train, test = (min(rows, asked or rows) for asked in (source.limit, source.test_limit))
    fewer = dataclasses.replace(source, limit=train, test_limit=test)
    forget_peak()
    held, begin = resident(), time.perf_counter()
    load(fewer, seed=resolved.experiment.seed, test=resolved.test_rows)
    return Taken(seconds=time.perf_counter() - begin, memory=max(0, peak() - held))


def starting(resolved: Resolved, model: Model, source: Source, *, folder: Path) -> Taken:
    """What the start takes: tried for a moment, and reckoned by how far it got. Nothing of it is kept."""
    start = resolved.start
    forget_peak()
    held, begin = resident(), time.perf_counter()
    with _finished_starts():
        plain = _tried(start, resolved, model, source, folder)
        share = _plain_share(start)
        if plain is not None and share:
            harder = dataclasses.replace(start, warmup_epochs=0)  # type: ignore[type-var]
            other = _tried(harder, resolved, model, source, folder)
            plain = share * plain + (1 - share) * (plain if other is None else other)
    return Taken(seconds=time.perf_counter() - begin if plain is None else plain, memory=max(0, peak() - held))


def _plain_share(start: Start) -> float:
    """Of a start whose first epochs are easier than the others, their share."""
    plain, epochs = getattr(start, "warmup_epochs", 0), getattr(start, "epochs", 1)
    named = dataclasses.is_dataclass(start) and any(one.name == "warmup_epochs" for one in dataclasses.fields(start))
    return min(1.0, plain / epochs) if named else 0.0


def _tried(start: Start, resolved: Resolved, model: Model, source: Source, folder: Path) -> float | None:
    """Seconds that the start will take; None where it was made, because there was little to do."""
    first: list[tuple[float, int]] = []
    last: list[tuple[float, int, int]] = []

    def progress(done: int, total: int) -> None:
        now = time.perf_counter()
        first.append((now, done)) if not first else None
        last[:] = [(now, done, total)]
        if now - begin > SECONDS_OF_START and now - first[0][0] > SECONDS_OF_START / 2:
            raise _Enough

    begin = time.perf_counter()
    context = start_context(resolved, source, model.built_for, folder=folder, progress=progress)
    try:
        with compute_threads(threads_of(resolved.experiment.engine.workers)):
            start.prepare(model.built, context)
        return None
    except _Enough:
        (then, before), (now, done, total) = first[0], last[0]
        return then - begin + (now - then) / max(1, done - before) * (total - before)


@contextmanager
def _finished_starts() -> Iterator[None]:
    """Inside, finished starts are found where they are kept, and nothing is added to them."""
    kept, variable = store_folder(), os.environ.get(STORE_VARIABLE)
    with tempfile.TemporaryDirectory(prefix="sordino-plan-") as folder:
        for record in kept.glob(f"*/{RECORD}") if kept.is_dir() else ():
            (Path(folder) / record.parent.name).symlink_to(record.parent.resolve(), target_is_directory=True)
        os.environ[STORE_VARIABLE] = folder
        try:
            yield
        finally:
            _restore(variable)


def _restore(variable: Any) -> None:
    if variable is None:
        del os.environ[STORE_VARIABLE]
    else:
        os.environ[STORE_VARIABLE] = variable
