"""Numbers about clients' rows before the first round: charged one by one, and noised by each client."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor

from sordino.core import SordinoError
from sordino.engine.federation import FederationServer
from sordino.engine.messages import Answer, Request
from sordino.privacy.clipping import StatisticBound
from sordino.privacy.grant import Grant
from sordino.privacy.ledger import Line
from sordino.privacy.mechanisms import Laplace
from sordino.privacy.pricing import price_local_steps
from sordino.tuning.survey import Survey


def ask_clients(federation: FederationServer, survey: Survey, model: Tensor) -> Mapping[str, Sequence[float]]:
    """Every client's released numbers, by name. All of them must answer: a choice by some would not be the rule's."""
    sizes = federation.sizes
    grants: dict[int, dict[str, Grant]] = {client: {} for client in range(len(sizes))}
    for name in survey.names:
        for client, rows in enumerate(sizes):
            line = _line(federation, survey.bound(name, rows), client, survey.noise_multiplier)
            grants[client][name] = federation.door.charge(line).share(client)
    answers = federation.transport.exchange([_request(federation, survey, model, k, own) for k, own in grants.items()])
    for found in answers:
        if not isinstance(found, Answer):
            raise SordinoError(
                f"The choice of [tuning] needs the numbers of all clients, but got none of client {found.client} "
                f"({found.because}); see to that client, and go on with --resume."
            )
    released = [answer.released for answer in answers if isinstance(answer, Answer)]
    return {name: [float(each[name].value) for each in released] for name in survey.names}


def _request(
    federation: FederationServer, survey: Survey, model: Tensor, client: int, grants: Mapping[str, Grant]
) -> Request:
    return Request(
        kind="survey",
        client=client,
        round=0,
        model=model,
        upload_shape=(1,),
        job=survey,
        clip=federation.tariff.clip,
        grants=grants,
    )


def _line(federation: FederationServer, bound: StatisticBound, client: int, noise_multiplier: float) -> Line:
    """One number of one client, with Laplace noise."""
    price = price_local_steps(
        mechanism=Laplace(),
        noise_multiplier=noise_multiplier,
        rate=1.0,
        steps=1,
        server_holds_data=federation.tariff.pooled,
    )
    return Line(
        round=0,
        label="statistic",
        unit="example",
        owner=f"client {client}",
        mechanism="laplace",
        norm="l1",
        clip_bound=bound.sensitivity,
        noise_multiplier=noise_multiplier,
        releases=1,
        participants=(client,),
        charges=price.charges,
    )
