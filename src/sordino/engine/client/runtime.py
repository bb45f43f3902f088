"""The client runtime: does what a request asks for beside the client's rows, bounds it, noises it, and hands out one answer.

It is the same class in every engine. It never sees the ledger of the server: a grant says what may be released, and the noise
comes from the client's own source.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor

from sordino.core import Bounded, Private, Released, SordinoError
from sordino.data.examples import Examples
from sordino.engine.charged_evaluation import ChargedEvaluation, contribution
from sordino.engine.client.guard import Guard, NoGuard
from sordino.engine.client.noisy_steps import PoissonSteps
from sordino.engine.client.personal_store import PersonalStore
from sordino.engine.evaluate import correct_as_it_is
from sordino.engine.messages import Answer, Request
from sordino.methods.context import ClientContext
from sordino.methods.jobs import PersonalJob, PersonalSteps, Turn
from sordino.privacy.clipping import bound_statistic, bound_update
from sordino.privacy.coins import Coins, FreshCoins
from sordino.privacy.mechanisms import UPDATE, Laplace

if TYPE_CHECKING:
    from sordino.engine.tariff import Tariff
    from sordino.methods.jobs import ClientJob, NoisySteps
    from sordino.privacy.door import ClientDoor
    from sordino.tuning.survey import Survey

Rows = Callable[[], Private[Examples]]


@dataclass(kw_only=True)
class ClientRuntime:
    """One client: its rows, what it keeps, its own noise, and its own limits.

    Formal guarantee: what leaves is bounded by the clip of the request and noised as a grant says, and every grant was admitted
    by the client's own `guard` before any work was done. Where the server adds the noise, what leaves is bounded, and the guard
    knows.
    """

    client: int
    rows: Rows
    held_out: Rows | None = None
    """Rows on which this client evaluates a model."""
    tariff: Tariff
    """What the client itself knows of prices, rates and mechanisms, from the experiment and the public roster."""
    door: ClientDoor
    personal: PersonalStore | None = None
    anchors: Examples | None = None
    """Public examples, for mechanisms that need some."""
    guard: Guard = dataclasses.field(default_factory=NoGuard)

    def answer(self, request: Request, context: ClientContext) -> Answer:
        """Everything in turn: ask the guard, work, bound, noise."""
        self.guard.admit(request)
        if request.kind == "steps":
            return self._steps(request, context)
        if request.kind == "survey":
            return self._survey(request, context)
        if request.kind == "score":
            return self._score(request, context)
        return self.hand_out(request, self._turn(request, context))

    def hand_out(self, request: Request, turn: Private[Turn]) -> Answer:
        """Bound and noise what one turn gave, and keep what stays with the client."""
        if self.personal is not None:
            self.personal.keep(self.client, turn.map(_personal))
        if request.kind == "support":
            return self._on_support(request, turn)
        update = turn.map(_update)
        like = request.model.new_zeros(()).expand(request.upload_shape)
        charged = {part.name for part in request.grant.parts}
        bounded: dict[str, Bounded] = {}
        if charged != {UPDATE}:
            bounded |= self.tariff.mechanism.besides_update(update, request.clip, like=like)
        bounded[UPDATE] = bound_update(update, request.clip, like=like)
        return self.hand_over(request, {name: value for name, value in bounded.items() if name in charged})

    def hand_over(self, request: Request, bounded: dict[str, Bounded]) -> Answer:
        """Noise what has been bounded, unless the server does."""
        if request.server_noises:
            return Answer(client=self.client, bounded=bounded)
        permit = self.door.permit(request.grant, self.tariff.mechanism)
        released = {name: permit.release(value, part=name) for name, value in bounded.items()}
        return Answer(client=self.client, released=released)

    def _turn(self, request: Request, context: ClientContext) -> Private[Turn]:
        job, personal = request.job, self.personal
        if isinstance(job, PersonalJob):
            assert personal is not None
            return (
                self.rows()
                .pair(personal.of(self.client))
                .map(lambda known: job.turn(request.model, known[1], known[0], context))
            )
        plain = cast("ClientJob", job)
        return self.rows().map(lambda own: plain_turn(plain.run(request.model, own, context)))

    def _on_support(self, request: Request, turn: Private[Turn]) -> Answer:
        like = request.model.new_zeros(()).expand(request.upload_shape)
        bounded = bound_update(turn.map(_update), request.clip, like=like)
        permit = self.door.permit(request.grant, self.tariff.mechanism)
        return Answer(client=self.client, released={UPDATE: permit.release_on_support(bounded, turn.map(_support))})

    def _steps(self, request: Request, context: ClientContext) -> Answer:
        """A model trained by noisy steps. How often rows are drawn is the client's own knowledge, not the request's."""
        priced, mechanism = self.tariff.steps, self.tariff.mechanism
        job = cast("NoisySteps", request.job)
        assert priced is not None
        steps = PoissonSteps(
            self.rows(),
            context,
            mechanism=mechanism,
            permit=self.door.permit(request.grant, mechanism),
            clip=request.clip,
            rate=priced.rate(context.size),
            coins=self._coins(request.repeat),
            chunk=job.chunk,
            anchors=self.anchors,
        )
        model = _released_model(self._stepped(job, Released.public(request.model), context, steps))
        return Answer(client=self.client, released={UPDATE: model}, clip_bound=steps.clip.bound)

    def _stepped(
        self, job: NoisySteps, start: Released[Tensor], context: ClientContext, steps: PoissonSteps
    ) -> Released[Tensor]:
        """The model that noisy steps end at; what they leave with the client is kept."""
        if not isinstance(job, PersonalSteps):
            return job.run(start, context.public(), release=steps)
        assert self.personal is not None
        own = self.personal.of_noisy_steps(self.client)
        turn = job.noisy_turn(start, own, context.public(), release=steps)
        self.personal.keep(self.client, Private(_released_model(turn.personal).value))
        return turn.model

    def _survey(self, request: Request, context: ClientContext) -> Answer:
        survey = cast("Survey", request.job)
        found = self.rows().map(lambda own: survey.measure(request.model, own, context))
        released = {}
        for name, grant in request.grants.items():
            value = bound_statistic(found.map(itemgetter(name)), survey.bound(name, context.size))
            released[name] = self.door.permit(grant, Laplace()).release(value)
        return Answer(client=self.client, released=released)

    def _score(self, request: Request, context: ClientContext) -> Answer:
        evaluation = self.tariff.evaluation
        assert evaluation is not None and self.held_out is not None
        context.space.write(context.net, request.model)
        right = self.held_out().map(lambda own: _contribution(evaluation, own, context))
        bounded = bound_statistic(right, evaluation.bound(context.size), norm=evaluation.mechanism.norm)
        if request.server_noises:
            return Answer(client=self.client, bounded={UPDATE: bounded})
        released = self.door.permit(request.grant, evaluation.mechanism).release(bounded)
        return Answer(client=self.client, released={UPDATE: released})

    def _coins(self, repeat: int) -> Coins:
        source = self.door.source
        return FreshCoins(coins=source, repeat=repeat) if repeat else source


def plain_turn(update: Tensor) -> Turn:
    """The turn of a client that keeps nothing."""
    return Turn(update=update, personal=torch.empty(0))


def _contribution(evaluation: ChargedEvaluation, own: Examples, context: ClientContext) -> float:
    right = float(correct_as_it_is(context.net, own, context.device).sum())
    return contribution(right=right, filled=len(own), slots=context.size, unit=evaluation.unit)


def _released_model(model: object) -> Released[Tensor]:
    if not isinstance(model, Released):
        raise SordinoError(
            f"Noisy steps must return a released model, but got {type(model).__name__}; return start.map(...) as NoisySgd does."
        )
    return model


def _update(turn: Turn) -> Tensor:
    return turn.update


def _personal(turn: Turn) -> Tensor:
    return turn.personal


def _support(turn: Turn) -> Tensor:
    if turn.support is None:
        raise SordinoError(
            "collect_on_support needs turns that say where their update is sent, but got one without; set Turn.support."
        )
    return turn.support
