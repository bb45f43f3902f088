"""Which neighbours a run can promise anything about."""

from __future__ import annotations

from sordino.core import SordinoError
from sordino.engine.resolved import Resolved
from sordino.sentences import with_article

MADE_OF_THE_COUNT = {
    "client": "clients are drawn at a rate, or their sum is divided by a number, that is made of how many clients there are",
    "example": "batches are drawn at a rate and divided by a size that is made of how many rows a client holds",
}


def refuse_counted_units(resolved: Resolved) -> None:
    """Refuse add-remove neighbours where the number of units is used openly.

    One unit more then moves the sum by C, and everybody else's share of it too, because rates, divisors and seats move: by up
    to 2C in all, with noise of another scale. Under zero-out the number of units stays what it is, so none of that moves.
    """
    method = resolved.method
    if method.protected and resolved.privacy.neighbours == "add-remove":
        raise SordinoError(
            f"[privacy] neighbours = 'add-remove' would hide how many {method.unit}s there are, but "
            f"{MADE_OF_THE_COUNT[method.unit]}; set neighbours = 'zero-out', which hides all else of {with_article(method.unit)} with the "
            "same noise, or 'replace-one'."
        )
