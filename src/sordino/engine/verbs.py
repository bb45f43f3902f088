"""What each verb asks of the declaration that was priced.

The price of a run follows what its method declares: whose data are hidden, and whether the server uses every upload or
their sum. The verb that the method calls decides what really comes out. Where the two differ, the price would be wrong,
so the call is refused before anybody works, anything is charged or anything is released.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from sordino.core import SordinoError
from sordino.methods.method import ClientJob, NoisySteps, PersonalJob, PersonalSteps
from sordino.privacy.pricing import Uses

if TYPE_CHECKING:
    from sordino.engine.tariff import Tariff

_OTHER: dict[Uses, str] = {
    "sum": "collect_each, which hands out uploads one by one",
    "each": "collect_sum, which sums them",
}


def check_uploads(tariff: Tariff, hands_out: Uses, job: ClientJob | PersonalJob, *, keeps_state: bool) -> None:
    """Refuse `collect_sum` (hands out the sum) or `collect_each` where something else was priced."""
    verb = f"collect_{hands_out}"
    _check_client_level(tariff, verb)
    if tariff.uses != hands_out:
        raise SordinoError(
            f"The method declares uses = {tariff.uses!r} and was priced so, but it called {_OTHER[tariff.uses]}; "
            f"declare uses = {hands_out!r}, or call collect_{tariff.uses}."
        )
    _check_client_job(verb, job, keeps_state=keeps_state)


def check_on_support(tariff: Tariff, job: PersonalJob, *, keeps_state: bool) -> None:
    """Refuse `collect_on_support` where a finite ε was priced, or uploads one by one."""
    verb = "collect_on_support"
    _check_client_level(tariff, verb)
    if not tariff.uncovered:
        raise SordinoError(
            f"The method called {verb}, which shows where each client's update is not zero, but it declares nothing as "
            "uncovered and was priced so; say why no ε holds in `uncovered`, or call collect_sum."
        )
    if tariff.uses != "sum":
        raise SordinoError(
            f"The method declares uses = {tariff.uses!r} and was priced so, but it called {verb}, which hands out a sum; "
            "declare uses = 'sum'."
        )
    if not isinstance(job, PersonalJob):
        raise SordinoError(
            f"{verb} needs a job with turn(), which says where an update is sent, but got {type(job).__name__}; "
            "implement turn()."
        )
    _check_client_job(verb, job, keeps_state=keeps_state)


def check_models(tariff: Tariff, job: NoisySteps, sizes: Iterable[int], *, keeps_state: bool) -> None:
    """Refuse `collect_models` by a client-level method, or for other steps than those that were priced."""
    priced = tariff.steps
    if priced is None:
        raise SordinoError(
            "The method declares unit = 'client' and was priced so, but it called collect_models, which releases steps on "
            "single examples; declare unit = 'example', or call collect_sum or collect_each."
        )
    if not isinstance(job, NoisySteps):
        raise SordinoError(
            f"collect_models needs a job of noisy steps such as NoisySgd, but got {type(job).__name__}; hand over the "
            "method's own job."
        )
    if isinstance(job, PersonalSteps):
        _check_keeping(job, keeps_state=keeps_state)
    if job.local_steps != priced.local_steps:
        raise SordinoError(
            f"The method was priced for {priced.local_steps} local steps, but handed over a job of {job.local_steps}; "
            "hand over the method's own job."
        )
    for rows in sorted(set(sizes)):
        if job.rate(rows) != priced.rate(rows):
            raise SordinoError(
                f"The method was priced for batches at rate {priced.rate(rows):.4g} of {rows} rows, but handed over a job "
                f"with rate {job.rate(rows):.4g}; hand over the method's own job."
            )


def _check_client_level(tariff: Tariff, verb: str) -> None:
    if tariff.unit != "client":
        raise SordinoError(
            f"The method declares unit = {tariff.unit!r} and was priced so, but it called {verb}, which bounds whole "
            "clients; declare unit = 'client', or call collect_models."
        )


def _check_client_job(verb: str, job: object, *, keeps_state: bool) -> None:
    if isinstance(job, NoisySteps):
        raise SordinoError(
            f"{verb} needs a client job with run() or turn(), but got {type(job).__name__}, whose steps carry noise of "
            "their own; declare unit = 'example' and call collect_models."
        )
    if isinstance(job, PersonalJob):
        _check_keeping(job, keeps_state=keeps_state)


def _check_keeping(job: object, *, keeps_state: bool) -> None:
    if not keeps_state:
        raise SordinoError(
            f"The clients of {type(job).__name__} keep something from turn to turn, but the method declares that they keep "
            "nothing; inherit Personalised with keeps_state = True, or implement run() instead of turn()."
        )
