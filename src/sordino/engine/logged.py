"""A run as its log tells it: who was asked, who answered, how fast, how many bytes passed, and how far it has come."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence

from sordino.engine.messages import Answer, Missing, Request
from sordino.engine.transport import Transport
from sordino.nodes.log import JsonLog

LOG = "log.jsonl"
"""In the run's folder, where clients are in other processes. It names who was asked, so it stays with the server."""


def logged(inside: Transport, log: JsonLog, name: Callable[[int], str]) -> Transport:
    """The same transport with its log; as it is where nothing is logged. `name` says what a client is called."""
    return inside if log.path is None else LoggedTransport(inside, log, name)


class LoggedTransport:
    """Carries requests as the transport inside does. What is logged are names and sizes, and no value of an answer."""

    def __init__(self, inside: Transport, log: JsonLog, name: Callable[[int], str]) -> None:
        self._inside, self._log, self._name = inside, log, name

    def exchange(self, requests: Sequence[Request]) -> list[Answer | Missing]:
        if requests:
            self._log.write("asked", round=requests[0].round, kind=requests[0].kind, nodes=len(requests))
        begin = time.perf_counter()
        found = self._inside.exchange(requests)
        seconds = round(time.perf_counter() - begin, 3)
        for request, said in zip(requests, found, strict=True):
            self._tell(request, said, seconds)
        return found

    def _tell(self, request: Request, said: Answer | Missing, seconds: float) -> None:
        node, number = self._name(request.client), request.model.element_size()
        if isinstance(said, Missing):
            self._log.write("missing", round=request.round, kind=request.kind, node=node, because=said.because)
            return
        self._log.write(
            "answered",
            round=request.round,
            kind=request.kind,
            node=node,
            seconds=seconds,
            bytes_up=math.prod(request.upload_shape) * number,
            bytes_down=request.model.numel() * number,
        )
