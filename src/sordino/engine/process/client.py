"""A client process: gets its rows and the plan, agrees or refuses, and answers requests until the socket closes.

`python -m sordino.engine.process.client FD` speaks over the socket with this descriptor.
"""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import torch
from torch import nn

from sordino.core import SordinoError
from sordino.engine.client.session import Entered, Own, Session
from sordino.engine.hello import Beginning, examples_of, model_weights
from sordino.engine.wire.frames import receive, send
from sordino.engine.wire.message import Garbled, Message
from sordino.models import Net
from sordino.outside import look_beside

LARGEST = 1 << 36
"""Bytes of a message from the server, which is trusted with memory."""


class SentRows:
    """Rows that the engine deals out with each phase, as the phase's model takes them."""

    def entered(self, message: Message, whole: Net) -> Entered:
        net = Net(body=nn.Identity(), head=whole.head) if message.content["on_features"] else whole
        net.load_state_dict(model_weights(message))
        rows, held_out = (examples_of(message, name) for name in ("rows", "held_out"))
        assert rows is not None
        return Entered(net=net, rows=rows, held_out=held_out)


def begun(message: Message) -> Session:
    """The session that a `begin` message opens."""
    return Session(Beginning.from_message(message), Own.told(message.content), SentRows())


def serve(connection: socket.socket) -> None:
    """Answer until the other side closes; what goes wrong is told as a sentence."""
    session: Session | None = None
    while True:
        try:
            message = receive(connection, largest=LARGEST)
        except (EOFError, ConnectionError, Garbled):
            return
        try:
            if message.content["what"] == "begin":
                session, said = begun(message), Message(content={"what": "done"})
            else:
                assert session is not None
                said = session.handle(message)
        except SordinoError as error:
            said = Message(content={"what": "refused", "because": str(error)})
        send(connection, said)


def main() -> None:
    torch.set_num_threads(1)
    look_beside(Path(sys.argv[2]))
    with socket.socket(fileno=int(sys.argv[1])) as connection:
        serve(connection)


if __name__ == "__main__":
    main()
