"""Who at the client decides whether a plan is agreed to and a request answered."""

from __future__ import annotations

import math
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Protocol

from sordino.core import VIEWS, SordinoError
from sordino.engine.client.lifetime import Bills, LifetimeLedger
from sordino.engine.client.limits import Limits
from sordino.engine.messages import Request
from sordino.privacy.accounting import spent
from sordino.privacy.line import SAME
from sordino.privacy.pricing import neighbours_in

if TYPE_CHECKING:
    from sordino.engine.tariff import Tariff
    from sordino.experiment import Experiment
    from sordino.privacy.grant import Grant

ROUND_LABELS = ("update", "steps")
"""Grants for the work of a round."""


class Guard(Protocol):
    """Admits a request, or raises `SordinoError` with the reason; what it admits is on the client's own disk before it returns."""

    def admit(self, request: Request) -> None: ...


class NoGuard:
    """Admits everything: for clients in a simulation, whose rows and ledger lie with the server anyway."""

    def admit(self, request: Request) -> None:
        return


@dataclass(kw_only=True)
class OwnGuard:
    """A client's own limits and its own ledger.

    Formal guarantee: the whole price of a run as planned is in the client's ledger before its first request is answered. A grant
    is spent once, also after a restart; where noise is seeded, the very same request may be answered again, with the same bits.
    """

    client: int
    limits: Limits
    ledger: LifetimeLedger
    run: str
    repeatable: bool
    """Whether noise is seeded, so that an answer can be given again without telling anything new."""
    experiment: Experiment
    tariff: Tariff
    """The plan as the client itself works it out."""

    def agree(self) -> None:
        """Agree to the plan, or refuse it with the limit that it breaks; one that was agreed to before costs nothing more."""
        self.limits.check_method(self.experiment.method["name"], self.tariff.noise_drawn)
        if not self.ledger.knows(self.run):
            bills = {view: self.tariff.bill(self.client, view) for view in VIEWS}
            self._check_limits(bills)
            self.ledger.agree(self.run, self.experiment.name, bills)

    def admit(self, request: Request) -> None:
        digest = _digest(request)
        for grant in request.grants.values():
            if grant.client != self.client or grant.run != self.run:
                raise SordinoError(
                    f"A grant of client {self.client} in this run was expected, but got one of client {grant.client} in run "
                    f"{grant.run[:8]}…; nothing is released for it."
                )
            before = self.ledger.spent_for(grant.nonce)
            if before is not None and not (self.repeatable and before == digest):
                raise SordinoError(
                    f"The grant of line {grant.line} was spent before; nothing is released for it a second time."
                )
            self._check_noise(grant, request)
            if before is None:
                besides = self.ledger.beyond_plan(grant)
                if besides:
                    self._check_limits(besides)
                self.ledger.spend(grant, digest, besides)

    def _check_noise(self, grant: Grant, request: Request) -> None:
        """Refuse less noise than the limits ask for, or than the plan has for this round."""
        drawn = grant.parts[0].noise_multiplier
        self.limits.check_noise(drawn, server_noises=request.server_noises)
        planned = self.tariff.price(self.client, grant.round).noise_multiplier
        if grant.label in ROUND_LABELS and drawn < planned * (1 - SAME):
            raise SordinoError(
                f"The plan of this run has a noise multiplier of {planned:g} in round {grant.round}, but the request has {drawn:g}; "
                "nothing is released for it."
            )

    def _check_limits(self, besides: Bills) -> None:
        """What is to be paid now, alone and together with all that was paid before."""
        privacy, protected = self.experiment.privacy, self.tariff.protected
        for view, bill in besides.items():
            neighbours = neighbours_in(view, privacy.neighbours)
            paid = self.ledger.total(view) + bill
            run, lifetime = (
                spent(events, delta=privacy.delta, neighbours=neighbours).epsilon if protected else math.inf
                for events in (bill, paid)
            )
            self.limits.check_epsilon(view, run=run, lifetime=lifetime)


def _digest(request: Request) -> str:
    """Of everything that an answer depends on besides the client's own rows."""
    model = request.model.detach().cpu().contiguous().view(-1).numpy().tobytes()
    facts = (request.kind, request.round, request.repeat, request.clip, request.server_noises, request.upload_shape)
    return blake2b(repr(facts).encode() + model, digest_size=16).hexdigest()
