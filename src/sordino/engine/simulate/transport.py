"""Requests to clients in this process: a runtime for each, on worker threads, or stacked where the job says how."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Tensor

from sordino.core import Private
from sordino.engine.client.runtime import ClientRuntime, plain_turn
from sordino.engine.messages import Answer, Missing, Request
from sordino.engine.roster import Roster
from sordino.engine.simulate.dropping import Dropping
from sordino.engine.simulate.schedule import ScheduleName, stacked_job, stacked_updates
from sordino.engine.simulate.workers import Place, Workers
from sordino.methods.context import ClientContext
from sordino.methods.local_sgd import LocalSgd
from sordino.privacy.clipping import bound_updates
from sordino.privacy.mechanisms import UPDATE


@dataclass(kw_only=True)
class LocalTransport:
    """Every client answers by a `ClientRuntime` of its own, made when it is asked. An error in a client's work ends the run."""

    runtime: Callable[[int], ClientRuntime]
    """The client of this number: its rows, its noise, what it keeps."""
    roster: Roster
    workers: Workers
    schedule: ScheduleName = "workers"
    dropping: Dropping | None = None
    """Who does not answer, where the simulation has such clients."""
    zeroed: int = 0
    """Contributions that were not finite, so far: a number that is not private, for simulations."""

    def exchange(self, requests: Sequence[Request]) -> list[Answer | Missing]:
        absent = (
            [] if self.dropping is None else [one for one in map(self.dropping.missing, requests) if one is not None]
        )
        gone = {one.client for one in absent}
        here = [request for request in requests if request.client not in gone]
        return [*(self._answers(here) if here else []), *absent]

    def _answers(self, requests: Sequence[Request]) -> list[Answer]:
        runtimes = [self.runtime(request.client) for request in requests]
        plain = self._stackable(requests)
        answers = self._one_by_one(runtimes, requests) if plain is None else self._stacked(runtimes, requests, plain)
        self.zeroed += sum(runtime.door.zeroed for runtime in runtimes)
        return answers

    def _stackable(self, requests: Sequence[Request]) -> LocalSgd | None:
        """The plain SGD that does the work of all of these, if there is one."""
        first = requests[0].job
        alike = all(request.kind == "update" and request.job is first for request in requests)
        return stacked_job(first) if alike and self.schedule == "stacked" else None

    def _one_by_one(self, runtimes: Sequence[ClientRuntime], requests: Sequence[Request]) -> list[Answer]:
        def work(number: int, context: ClientContext) -> Answer:
            return runtimes[number].answer(requests[number], context)

        return self.workers.each([self._place(request) for request in requests], work)

    def _stacked(self, runtimes: Sequence[ClientRuntime], requests: Sequence[Request], job: LocalSgd) -> list[Answer]:
        for runtime, request in zip(runtimes, requests, strict=True):
            runtime.guard.admit(request)
        updates = stacked_updates(
            self.workers,
            [self._place(request) for request in requests],
            [request.model for request in requests],
            [runtime.rows() for runtime in runtimes],
            job,
        )

        if _only_clipped(requests[0]):
            return self._clipped(runtimes, requests, updates)

        def hand_out(number: int) -> Answer:
            return runtimes[number].hand_out(requests[number], updates[number].map(plain_turn))

        return self.workers.map(hand_out, range(len(requests)))

    def _clipped(
        self, runtimes: Sequence[ClientRuntime], requests: Sequence[Request], updates: Sequence[Private[Tensor]]
    ) -> list[Answer]:
        """Clipping alone is so little work that turns on threads would mostly wait for each other."""
        first = requests[0]
        like = first.model.new_zeros(()).expand(first.upload_shape)
        bounded = bound_updates(updates, first.clip, like=like)
        return [
            runtime.hand_over(request, {UPDATE: one})
            for runtime, request, one in zip(runtimes, requests, bounded, strict=True)
        ]

    def _place(self, request: Request) -> Place:
        sizes = self.roster.held_out if request.kind == "score" else self.roster.sizes
        return Place(client=request.client, round=request.round, size=sizes[request.client])


def _only_clipped(request: Request) -> bool:
    """Whether the update is all that is asked for, and the server noises the sum."""
    return request.server_noises and [part.name for part in request.grant.parts] == [UPDATE]
