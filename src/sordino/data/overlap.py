"""Whether two data sets share examples: data that is private in one place cannot be public in another."""

from __future__ import annotations

from hashlib import blake2b

from sordino.core import SordinoError
from sordino.data.examples import Examples
from sordino.data.source import Source


def refuse_overlap(private: Source, public: Source) -> None:
    """Refuse a public set that holds training or test examples of a private one."""
    if private.visibility == "public":
        return
    for part, examples in (("training", private.train), ("test", private.test)):
        shared = overlap(examples, public.train)
        if shared:
            raise SordinoError(
                f"{shared} examples of the public set {public.name!r} are also {part} examples of the private set {private.name!r}; "
                "what is private in one place cannot be public in another, so choose another public set."
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
