"""What a grant must look like by the client's own copy of the plan: a server that asks for anything else gets nothing.

Formal guarantee: whatever a request says, what leaves for it has at least the noise that the plan has, is bounded in the norm
that the mechanism needs, is released as often as was priced, and costs in the client's ledger what the client itself makes of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from sordino.core import Norm, SordinoError
from sordino.engine.charged_evaluation import EVALUATION
from sordino.engine.messages import Kind, Request
from sordino.privacy.clipping import Clip
from sordino.privacy.events import to_json
from sordino.privacy.line import SAME, alike
from sordino.privacy.mechanisms import UPDATE, Laplace
from sordino.privacy.pricing import Charge, Price, price_local_steps

if TYPE_CHECKING:
    from sordino.engine.tariff import Tariff
    from sordino.privacy.grant import Grant
    from sordino.tuning.survey import Survey

LABELS: dict[Kind, str] = {
    "update": "update",
    "support": "update",
    "steps": "steps",
    "survey": "statistic",
    "score": EVALUATION,
}
"""What the ledger calls the release that each kind of request ends in."""


@dataclass(frozen=True, kw_only=True)
class Expected:
    """What the plan has for one kind of request."""

    price: Price
    norm: Norm
    releases: int = 1
    server_noises: bool = False
    moving_clip: bool = False
    clip: Clip | None = None
    """The clip of the plan, where requests carry it; its bound may move."""


def expected(tariff: Tariff, client: int, request: Request) -> Expected:
    """What the client's own tariff says of such a request; a kind of work that the plan does not have is refused."""
    if request.kind == "survey":
        survey = cast("Survey", request.job)
        price = price_local_steps(
            mechanism=Laplace(),
            noise_multiplier=survey.noise_multiplier,
            rate=1.0,
            steps=1,
            server_holds_data=tariff.pooled,
        )
        return Expected(price=price, norm="l1")
    if request.kind == "score":
        evaluation = tariff.evaluation
        if evaluation is None:
            raise _other("releases no accuracy of clients' rows", "a score")
        return Expected(price=evaluation.price, norm=evaluation.mechanism.norm, server_noises=evaluation.summed)
    if (request.kind == "steps") != (tariff.steps is not None):
        raise _other("has " + ("noisy steps" if tariff.steps else "uploads"), f"{request.kind!r}")
    return Expected(
        price=tariff.price(client, request.round),
        norm=tariff.clip.norm,
        releases=1 if tariff.steps is None else tariff.steps.local_steps,
        server_noises=tariff.steps is None and tariff.placement == "central",
        moving_clip=tariff.steps is not None and tariff.mechanism.moves_clip,
        clip=tariff.clip,
    )


def check_grant(grant: Grant, request: Request, plan: Expected, *, rounds: int) -> None:
    """Refuse a grant that is not for what the plan has, or not at its price; the first difference is named."""
    for what, planned, got in _facts(grant, request, plan):
        if planned != got:
            raise _other(f"has {what} {planned}", f"{got}")
    if not 0 <= grant.round == request.round < rounds:
        raise _other(f"has {rounds} rounds", f"round {request.round} with a grant of round {grant.round}")
    _check_noise(grant, plan.price)
    if not alike(_bare(plan.price.charges), _bare(grant.charges)):
        raise _other(
            f"charges {_bare(plan.price.charges)} in round {grant.round}", f"a grant that says {_bare(grant.charges)}"
        )


def _facts(grant: Grant, request: Request, plan: Expected) -> Iterator[tuple[str, Any, Any]]:
    yield "a release called", LABELS[request.kind], grant.label
    yield "bounds in the norm", plan.norm, grant.norm
    yield "bounds in the norm", plan.norm, plan.norm if plan.clip is None else request.clip.norm
    yield "clip groups", plan.clip and plan.clip.groups, plan.clip and request.clip.groups
    yield "releases for each grant:", plan.releases, grant.releases
    yield "noise added by the server:", plan.server_noises, request.server_noises
    yield "a clip that moves:", plan.moving_clip, grant.moving_clip
    parts = [UPDATE, *(part.name for part in plan.price.others)]
    yield "releases of", parts, [part.name for part in grant.parts]


def _check_noise(grant: Grant, price: Price) -> None:
    planned = (price.noise_multiplier, *(part.noise_multiplier for part in price.others))
    for part, least in zip(grant.parts, planned, strict=True):
        if part.noise_multiplier < least * (1 - SAME):
            raise _other(f"has a noise multiplier of {least:g} in round {grant.round}", f"{part.noise_multiplier:g}")


def _bare(charges: tuple[Charge, ...]) -> list[Any]:
    """Charges without their words, in the order of views."""
    return sorted(([one.view, one.whom, to_json(one.event)] for one in charges), key=lambda one: one[0])


def _other(planned: str, got: str) -> SordinoError:
    return SordinoError(f"The plan of this run {planned}, but the request has {got}; nothing is released for it.")
