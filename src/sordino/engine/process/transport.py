"""Requests to client processes, each over a socket of its own; what comes back is checked before it counts."""

from __future__ import annotations

import math
import socket
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from sordino.core import SordinoError
from sordino.engine.messages import Answer, Missing, Request
from sordino.engine.wire.codec import decode_answer, encode_request
from sordino.engine.wire.frames import OutOfStep, receive, send
from sordino.engine.wire.message import Message
from sordino.methods.method import Method

ROOM = 1 << 16
"""Bytes of an answer besides its numbers."""
BYTES_PER_NUMBER = 8
AT_ONCE = 64


@dataclass(kw_only=True)
class Peer:
    """The other end of one client's socket."""

    client: int
    connection: socket.socket
    gone: str = ""
    """Why nothing more is heard of it; nothing while it answers."""

    def ask(self, message: Message, *, seconds: float, largest: int, nonce: str = "") -> Message:
        """Send one message and wait for what is said to it; late answers to earlier requests are dropped."""
        self.connection.settimeout(seconds)
        send(self.connection, message)
        while True:
            said = receive(self.connection, largest=largest)
            if said.content.get("what") != "answer" or said.content.get("nonce") == nonce:
                return said


@dataclass(kw_only=True)
class SocketTransport:
    """A client that is killed, is too slow, or sends what was not asked for costs its own seat and nothing else."""

    peers: Sequence[Peer]
    method: Method
    seconds: float
    """How long a client may take for one request."""
    zeroed: int = 0
    _pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(AT_ONCE), init=False)

    def exchange(self, requests: Sequence[Request]) -> list[Answer | Missing]:
        messages = [encode_request(request, self.method) for request in requests]
        return list(self._pool.map(self._one, requests, messages))

    def tell(self, messages: Sequence[Message]) -> list[Message | Missing]:
        """Say something to every client at once, and what each says to it."""
        return list(self._pool.map(self._told, self.peers, messages))

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)

    def _one(self, request: Request, message: Message) -> Answer | Missing:
        largest = ROOM + BYTES_PER_NUMBER * (math.prod(request.upload_shape) + len(request.grants))
        said = self._said(self.peers[request.client], message, largest=largest, nonce=request.nonce)
        if isinstance(said, Missing):
            return said
        if said.content.get("what") != "answer":
            return Missing(client=request.client, because=str(said.content.get("because", "it did not answer")))
        try:
            return decode_answer(said, request)
        except SordinoError as error:
            return Missing(client=request.client, because=str(error))

    def _told(self, peer: Peer, message: Message) -> Message | Missing:
        return self._said(peer, message, largest=ROOM, nonce="")

    def _said(self, peer: Peer, message: Message, *, largest: int, nonce: str) -> Message | Missing:
        """What a client says to a message. One whose connection broke is not asked again."""
        because = peer.gone
        try:
            if not because:
                return peer.ask(message, seconds=self.seconds, largest=largest, nonce=nonce)
        except TimeoutError:
            because = f"it did not answer within {self.seconds:g} s ([engine] client_seconds)"
        except OutOfStep as error:
            because = peer.gone = str(error)
        except (EOFError, OSError) as error:
            because = peer.gone = f"its process has ended ({error})"
        except SordinoError as error:
            because = str(error)
        return Missing(client=peer.client, because=because)
