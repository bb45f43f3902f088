"""Messages over a socket, each with its length before it."""

from __future__ import annotations

import socket

from sordino.engine.wire.lengths import OutOfStep, receive_bytes, send_bytes
from sordino.engine.wire.message import Message

__all__ = ["OutOfStep", "receive", "send"]


def send(connection: socket.socket, message: Message) -> int:
    """Send one message; returns how many bytes went out."""
    return send_bytes(connection, message.to_bytes())


def receive(connection: socket.socket, *, largest: int) -> Message:
    """The next message, of at most `largest` bytes; raises `EOFError` where the other side has gone."""
    return Message.from_bytes(receive_bytes(connection, largest=largest))
