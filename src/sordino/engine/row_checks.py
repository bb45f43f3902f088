"""Rows as a plan looks at them: to refuse what a run would refuse when it loads them, and for nothing else.

No figure of a plan depends on what is found here. Images that are compared with nothing are left unread, and so are sets too large
for a plan to hold; then a run alone finds out, before anything is charged.
"""

from __future__ import annotations

import dataclasses
import math
import time
from dataclasses import dataclass, field

from sordino.data.evaluation_rows import SeparateSource
from sordino.data.examples import Examples
from sordino.data.public import public_settings
from sordino.data.public_overlap import refuse_overlap
from sordino.data.settings import SourceFacts
from sordino.data.source import Source, describe
from sordino.engine.building import private_data
from sordino.engine.dealing import load_source
from sordino.engine.public_sets import public_anchors
from sordino.engine.resolved import Resolved
from sordino.engine.traffic import BYTES_PER_NUMBER
from sordino.pretrain.start import StartFacts

BYTES_LOOKED_AT = 1 << 29
"""Sets up to this size are read by a plan."""


@dataclass(frozen=True, kw_only=True)
class Looked:
    """What was left to the run to look at; public anchors, if a mechanism needs some, and the seconds that it took to find them."""

    notes: list[str] = field(default_factory=list)
    anchors: Examples | None = None
    seconds: float = 0.0


def refuse_bad_rows(resolved: Resolved, facts: SourceFacts, start: StartFacts) -> Looked:
    """Refuse rows that no model can be fed, and public ones that are private as well."""
    if facts.kind == "image" and not _compares(resolved, start):
        return Looked()
    size = data_bytes(facts) + _public_bytes(resolved, start)
    if size > BYTES_LOOKED_AT:
        note = (
            f"The data sets of this experiment take {size / 2**20:.0f} MB, too much for a plan to look at every row: bad rows, and public "
            "rows that are private as well, are refused when the run begins, before anything is charged."
        )
        return Looked(notes=[note])
    source = load_source(resolved)
    if (public := resolved.start.load_public(start)) is not None:
        refuse_overlap(source, public)
    resolved.start.warnings(dataclasses.replace(start, private=private_data(resolved, source)))
    return look_for_anchors(resolved, source)


def look_for_anchors(resolved: Resolved, private: Source) -> Looked:
    """Public anchors, as a run finds them before its first round."""
    begin = time.perf_counter()
    anchors = public_anchors(resolved, private)
    return Looked(anchors=anchors, seconds=time.perf_counter() - begin)


def data_bytes(facts: SourceFacts) -> int:
    """The memory that rows to train and to test on take."""
    return (facts.n_train + facts.n_test) * math.prod(facts.shape) * (1 if facts.kind == "image" else BYTES_PER_NUMBER)


def _public_bytes(resolved: Resolved, start: StartFacts) -> int:
    if (table := resolved.start.public_data) is None:
        return 0
    return data_bytes(describe(public_settings(table, shape=start.shape, where="start.data"), seed=start.seed))


def _compares(resolved: Resolved, start: StartFacts) -> bool:
    """Whether anything is called public that might be private."""
    public = isinstance(resolved.test_rows, SeparateSource) or resolved.start.public_data is not None
    learnt = any(one.rows for one in resolved.start.lineage(start.folder))
    return public or learnt or resolved.mechanism.public_examples() is not None
