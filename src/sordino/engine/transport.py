"""How requests reach clients and answers come back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from sordino.engine.messages import Answer, Missing, Request


class Transport(Protocol):
    """Carries requests to a cohort, and says who did not answer."""

    def exchange(self, requests: Sequence[Request]) -> list[Answer | Missing]:
        """An answer for each request, in the same order; a client that fails costs its own seat and nothing else."""
        ...
