"""Who at the client decides whether a request is answered at all."""

from __future__ import annotations

from typing import Protocol

from sordino.engine.messages import Request


class Guard(Protocol):
    """Admits a request, or raises `SordinoError` with the reason; what it admits is on the client's own disk before it returns."""

    def admit(self, request: Request) -> None: ...


class NoGuard:
    """Admits everything: for clients in a simulation, whose rows and ledger lie with the server anyway."""

    def admit(self, request: Request) -> None:
        return
