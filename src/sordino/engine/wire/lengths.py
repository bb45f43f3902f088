"""Bytes over a socket: eight bytes of length, little-endian, then so many bytes. Nothing here knows what they mean."""

from __future__ import annotations

import socket

from sordino.core import SordinoError

LENGTH = 8


class Garbled(SordinoError):
    """Bytes that are no message of ours."""


class OutOfStep(Garbled):
    """Nobody knows where the next message begins: the connection is of no more use."""


def send_bytes(connection: socket.socket, data: bytes) -> int:
    """Send one message; returns how many bytes went out."""
    connection.sendall(len(data).to_bytes(LENGTH, "little") + data)
    return LENGTH + len(data)


def receive_bytes(connection: socket.socket, *, largest: int) -> bytes:
    """The next message, of at most `largest` bytes; raises `EOFError` where the other side has gone.

    A longer one is refused before any memory is taken for it.
    """
    length = int.from_bytes(_exactly(connection, LENGTH), "little")
    if length > largest:
        raise OutOfStep(f"A message of at most {largest} bytes was expected, but got one of {length}; it was not read.")
    return _exactly(connection, length, begun=True)


def _exactly(connection: socket.socket, count: int, *, begun: bool = False) -> bytes:
    """So many bytes. A pause before a message is a `TimeoutError`, after which it may still come; one inside it is the end."""
    parts, missing = [], count
    while missing:
        try:
            part = connection.recv(min(missing, 1 << 20))
        except TimeoutError as error:
            if begun or missing < count:
                raise OutOfStep("A message stopped in the middle.") from error
            raise
        if not part:
            raise EOFError("the connection was closed")
        parts.append(part)
        missing -= len(part)
    return b"".join(parts)
