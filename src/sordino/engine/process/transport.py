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
from sordino.engine.wire.frames import receive, send
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
        return list(self._pool.map(self._one, requests))

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)

    def _one(self, request: Request) -> Answer | Missing:
        peer = self.peers[request.client]
        if peer.gone:
            return Missing(client=request.client, because=peer.gone)
        largest = ROOM + BYTES_PER_NUMBER * (math.prod(request.upload_shape) + len(request.grants))
        try:
            message = encode_request(request, self.method)
            said = peer.ask(message, seconds=self.seconds, largest=largest, nonce=request.nonce)
            if said.content.get("what") != "answer":
                return Missing(client=request.client, because=str(said.content.get("because", "it did not answer")))
            return decode_answer(said, request)
        except TimeoutError:
            return Missing(client=request.client, because=f"it took longer than {self.seconds:g} s")
        except (EOFError, OSError) as error:
            peer.gone = f"its process has ended ({error})"
            return Missing(client=request.client, because=peer.gone)
        except SordinoError as error:
            return Missing(client=request.client, because=str(error))
