"""Messages over a socket: eight bytes of length, little-endian, then the message."""

from __future__ import annotations

import socket

from sordino.engine.wire.message import Garbled, Message

_LENGTH = 8


def send(connection: socket.socket, message: Message) -> int:
    """Send one message; returns how many bytes went out."""
    data = message.to_bytes()
    connection.sendall(len(data).to_bytes(_LENGTH, "little") + data)
    return _LENGTH + len(data)


def receive(connection: socket.socket, *, largest: int) -> Message:
    """The next message, of at most `largest` bytes; raises `EOFError` where the other side has gone.

    A longer one is refused before any memory is taken for it.
    """
    length = int.from_bytes(_exactly(connection, _LENGTH), "little")
    if length > largest:
        raise Garbled(f"A message of at most {largest} bytes was expected, but got one of {length}; it was not read.")
    return Message.from_bytes(_exactly(connection, length))


def _exactly(connection: socket.socket, count: int) -> bytes:
    parts, missing = [], count
    while missing:
        part = connection.recv(min(missing, 1 << 20))
        if not part:
            raise EOFError("the connection was closed")
        parts.append(part)
        missing -= len(part)
    return b"".join(parts)
