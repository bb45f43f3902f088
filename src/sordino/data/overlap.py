"""Whether two data sets share examples: data that is private in one place cannot be public in another."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

from sordino.core import SordinoError
from sordino.data.examples import Examples
from sordino.data.settings import SourceSettings

if TYPE_CHECKING:
    from sordino.data.source import Source


def refuse_overlap(private: Source, public: Source) -> None:
    """Refuse a public set that holds training or test examples of a private one."""
    if private.visibility == "public":
        return
    for part, examples in (("training", private.train), ("test", private.test)):
        shared = 0 if examples is None else overlap(examples, public.train)
        if shared:
            raise SordinoError(
                f"{shared} examples of the public set {public.name!r} are also {part} examples of the private set {private.name!r}; "
                "what is private in one place cannot be public in another, so choose another public set."
            )


def refuse_shared_rows(private: Examples, test: Examples, settings: SourceSettings, test_source: str) -> None:
    """Refuse public test rows that are rows of a private set as well, whether it trains on them or not."""
    if settings.visibility == "public":
        return
    shared = overlap(private, test)
    if shared:
        raise SordinoError(
            f"{shared} rows of the test source {test_source!r} are also rows of the private set {settings.source!r}; what is private "
            "in one place cannot be public in another, so drop them from the test source or name another."
        )


def overlap(a: Examples, b: Examples) -> int:
    """How many rows of `b` also occur in `a`, to the last bit of the raw inputs; labels are not compared.

    Copies that were resized, recoded or otherwise changed are not found.
    """
    if a.inputs.shape[1:] != b.inputs.shape[1:] or a.inputs.dtype != b.inputs.dtype:
        return 0
    seen = set(_digests(a))
    return sum(digest in seen for digest in _digests(b))


def _digests(examples: Examples) -> list[bytes]:
    rows = examples.inputs.cpu().contiguous().flatten(1).numpy()
    return [blake2b(row.data, digest_size=16).digest() for row in rows]
