"""Requests to nodes, all at once; what comes back is checked before it counts.

A node that missed something, because it was away or began again, is told the run and the phase anew together with the next request.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from sordino.core import SordinoError
from sordino.engine.flower.link import ROOM, Letters, Link, refusal
from sordino.engine.messages import Answer, Missing, Request
from sordino.engine.wire.codec import decode_answer, encode_request
from sordino.engine.wire.message import Message
from sordino.methods.method import Method

BYTES_PER_NUMBER = 8


@dataclass(kw_only=True)
class NodeTransport:
    """A node that dies, is too slow, or sends what was not asked for costs its own seat and nothing else."""

    link: Link
    method: Method
    run: str
    seconds: float
    """How long a node may take for one request."""
    introduction: Callable[[int], list[Message]]
    """What a client must have been told before it can be asked anything: the run, and the phase."""
    kept: int = 0
    """After how many rounds the server has its last checkpoint."""
    zeroed: int = 0
    _strangers: set[int] = field(default_factory=set, init=False)
    """Clients that may not know of the run or the phase."""

    def begin_again(self) -> None:
        """Whatever clients know no longer counts."""
        self._strangers = set(range(len(self.link.names)))

    def introduce(self) -> dict[int, list[Message] | str]:
        """Tell everybody of the run and the phase now, and hear what each says."""
        clients = range(len(self.link.names))
        said = self.link.tell(
            [Letters(client=client, messages=self.introduction(client)) for client in clients], seconds=self.seconds
        )
        self._strangers = {client for client in clients if not _all_done(said[client])}
        return said

    def exchange(self, requests: Sequence[Request]) -> list[Answer | Missing]:
        found = self._asked(requests)
        unknown = [request for request in requests if isinstance(found[request.client], _Unknown)]
        if unknown:
            self._strangers |= {request.client for request in unknown}
            found |= self._asked(unknown)
        return [_missing(request, found[request.client]) for request in requests]

    def _asked(self, requests: Sequence[Request]) -> dict[int, Answer | str | _Unknown]:
        letters = [self._letters(request) for request in requests]
        said = self.link.tell(letters, seconds=self.seconds)
        return {request.client: self._read(request, said[request.client]) for request in requests}

    def _letters(self, request: Request) -> Letters:
        asked = encode_request(request, self.method)
        content = {**asked.content, "run": self.run, "kept": self.kept}
        before: list[Message] = []
        if request.client in self._strangers:
            recalled = Message(content={"what": "recall", "run": self.run, "rounds": request.round})
            before = [*self.introduction(request.client), recalled]
        numbers = math.prod(request.upload_shape) + len(request.grants)
        return Letters(
            client=request.client,
            messages=[*before, dataclasses.replace(asked, content=content)],
            largest=ROOM * (1 + len(before)) + BYTES_PER_NUMBER * numbers,
        )

    def _read(self, request: Request, said: list[Message] | str) -> Answer | str | _Unknown:
        """The last thing that a node said, if all before it was well."""
        client = request.client
        if isinstance(said, str):
            self._strangers.add(client)
            return said
        if said[-1].content.get("what") == "unknown" and refusal(said) is None:
            return _Unknown()
        if not _all_done(said[:-1]):
            return refusal(said) or "it did not take up the run"
        self._strangers.discard(client)
        return _decoded(request, said[-1])


def _decoded(request: Request, said: Message) -> Answer | str:
    if said.content.get("what") != "answer":
        return str(said.content.get("because", "it did not answer"))
    if said.content.get("nonce") != request.nonce:
        return "its answer is to another request"
    try:
        return decode_answer(said, request)
    except SordinoError as error:
        return str(error)


class _Unknown:
    """A node that has not heard of the run."""


def _all_done(said: list[Message] | str) -> bool:
    return not isinstance(said, str) and all(message.content.get("what") == "done" for message in said)


def _missing(request: Request, found: Answer | str | _Unknown) -> Answer | Missing:
    if isinstance(found, Answer):
        return found
    because = found if isinstance(found, str) else "it does not know of the run"
    return Missing(client=request.client, because=because)
