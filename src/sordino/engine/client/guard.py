"""Who at the client decides whether a plan is agreed to and a request answered."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Protocol

from sordino.core import VIEWS, SordinoError
from sordino.engine.client.expected import check_grant, expected
from sordino.engine.client.lifetime import Agreement, Bills, LifetimeLedger
from sordino.engine.client.limits import Limits
from sordino.engine.messages import Request
from sordino.privacy.accounting import spent
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
    is spent once, also after a restart, and only for what the client's own copy of the plan has at that price; where noise is
    seeded, the very same request may be answered again, with the same bits.
    """

    client: int
    limits: Limits
    ledger: LifetimeLedger
    run: str
    server: str = ""
    """Whose run it is, as the client knows the server."""
    repeatable: bool
    """Whether noise is seeded, so that an answer can be given again without telling anything new."""
    experiment: Experiment
    tariff: Tariff
    """The plan as the client itself works it out."""

    def agree(self) -> None:
        """Agree to the plan, or refuse it with the limit that it breaks; one that was agreed to before costs nothing more."""
        bills = self.check()
        if self.ledger.agreed(self.run) is None:
            self.ledger.agree(self.agreement, bills)

    def check(self) -> Bills:
        """What the plan costs, if the limits allow it; nothing is written."""
        self.limits.check_parts(self.experiment.model_dump(mode="json"))
        self.limits.check_method(self.experiment.method["name"], self.tariff.noise_drawn)
        for planned in self._planned_noise():
            self.limits.check_planned_noise(planned, self.tariff.noise_drawn)
        bills = {view: self.tariff.bill(self.client, view) for view in VIEWS}
        before = self.ledger.agreed(self.run)
        if before is None:
            self._check_limits(bills)
        elif not before.same_plan(self.agreement) or not self.ledger.same_bills(self.run, bills):
            raise SordinoError(
                f"This client agreed to a run {self.run[:8]}… with plan {before.plan}, but got plan {self.agreement.plan} under the same "
                "name; a plan that changed is another run."
            )
        return bills

    @property
    def agreement(self) -> Agreement:
        """What this client would agree to."""
        privacy = self.experiment.privacy
        return Agreement(
            run=self.run,
            about=self.experiment.name,
            server=self.server,
            plan=self.experiment.fingerprint(),
            client=self.client,
            unit=self.tariff.unit,
            neighbours=privacy.neighbours,
            delta=privacy.delta,
        )

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
                    f"The grant of line {grant.line} was spent before; nothing is released for it a second time. If the same file is to be "
                    "run anew, give it another seed."
                )
            self._check_request(grant, request)
            if before is None:
                besides = self.ledger.beyond_plan(grant, pool_rounds_beyond=self._rounds_beyond(grant))
                if besides:
                    self._check_limits(besides)
                self.ledger.spend(grant, digest, besides)

    def _check_request(self, grant: Grant, request: Request) -> None:
        """Refuse what the limits do not allow, and whatever is not as the plan has it."""
        self.limits.check_noise(min(part.noise_multiplier for part in grant.parts), server_noises=request.server_noises)
        plan = expected(self.tariff, self.client, request)
        check_grant(grant, request, plan, rounds=self.experiment.rounds)

    def _rounds_beyond(self, grant: Grant) -> int:
        """How many rounds of this client's pool there may have been by now besides those that it agreed to.

        Every time a run is taken up again it may repeat the rounds since its last checkpoint, and a pool pays for those too.
        """
        if grant.label not in ROUND_LABELS:
            return 0
        period, rounds = self.tariff.sampler.period, self.experiment.rounds
        planned = len(range(self.client % period, rounds, period)) + self.tariff.spare_rounds
        so_far = grant.round // period + 1 + grant.attempt * self.experiment.engine.checkpoint_every
        return max(0, so_far - planned)

    def _planned_noise(self) -> Iterator[float]:
        """The noise multipliers of everything that the plan has this client release."""
        tariff, period = self.tariff, self.tariff.sampler.period
        for first in tariff.mechanism.stages(range(self.client % period, self.experiment.rounds, period)):
            price = tariff.price(self.client, first)
            yield from (price.noise_multiplier, *(part.noise_multiplier for part in price.others))
        if tariff.evaluation is not None and not tariff.evaluation.summed:
            yield tariff.evaluation.price.noise_multiplier

    def _check_limits(self, besides: Bills) -> None:
        """What is to be paid now, alone with what its run has cost, and together with all that was paid before."""
        agreement, known = self.agreement, self.ledger.agreed(self.run) is not None
        for view, bill in besides.items():
            of_run = self.ledger.total(view, runs=[self.run]) if known else type(bill)()
            run = spent(
                of_run + bill, delta=agreement.delta, neighbours=neighbours_in(view, agreement.neighbours)
            ).epsilon
            lifetime = self.ledger.epsilon(view, delta=self.limits.lifetime_delta, besides=agreement, bill=bill)
            if not self.tariff.protected:
                run = lifetime = math.inf
            self.limits.check_epsilon(view, run=run, lifetime=lifetime)


def _digest(request: Request) -> str:
    """Of everything that an answer depends on besides the client's own rows."""
    model = request.model.detach().cpu().contiguous().view(-1).numpy().tobytes()
    facts = (request.kind, request.round, request.repeat, request.clip, request.server_noises, request.upload_shape)
    return blake2b(repr(facts).encode() + model, digest_size=16).hexdigest()
