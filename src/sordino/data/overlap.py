"""Whether rows of one data set are also rows of another, to the last bit; labels are not compared."""

from __future__ import annotations

from hashlib import blake2b

import torch
from torch import Tensor

from sordino.core import SordinoError
from sordino.data.examples import Examples
from sordino.data.settings import SourceSettings


def refuse_shared_rows(
    private: Examples, test: Examples, settings: SourceSettings, test_source: str, *, alike_by_chance: bool = False
) -> None:
    """Refuse public test rows that are rows of a private set as well, whether it trains on them or not.

    Rows of a coarse table may be `alike_by_chance`. Where a person says so, only a test set of nothing else is refused.
    """
    if settings.visibility == "public":
        return
    shared = overlap(private.inputs, test.inputs)
    if shared > (len(test) - 1 if alike_by_chance else 0):
        by_chance = "" if alike_by_chance else _BY_CHANCE[test.inputs.dtype == torch.float32]
        raise SordinoError(
            f"{shared} rows of the test source {test_source!r} are also rows of the private set {settings.source!r}; what is private "
            f"in one place cannot be public in another, so drop them from the test source or name another{by_chance}."
        )


_BY_CHANCE = {
    True: ", or say in [data] test that a coarse table has them by chance with alike_by_chance = true",
    False: "",
}
"""What may be done where rows are those of a table."""


def overlap(a: Tensor, b: Tensor) -> int:
    """How many rows of `b` also occur in `a`. Copies that were resized, recoded or otherwise changed are not found."""
    if a.shape[1:] != b.shape[1:] or a.dtype != b.dtype:
        return 0
    seen = set(_digests(a))
    return sum(digest in seen for digest in _digests(b))


def _digests(inputs: Tensor) -> list[bytes]:
    rows = inputs.cpu().contiguous().flatten(1).numpy()
    return [blake2b(row.data, digest_size=16).digest() for row in rows]
