"""`python -m sordino.engine.flower.worker_process PARENT ...`: the process beside a node's rows, which answers letters from a socket."""

from __future__ import annotations

import argparse
import signal
import socket
from pathlib import Path

from sordino.engine.flower.leash import end_with
from sordino.startup import quick_imports

with quick_imports():
    import torch

    from sordino.engine.flower.worker import NodeWorker
    from sordino.engine.wire.lengths import receive_bytes, send_bytes

LARGEST = 1 << 36
"""Bytes of a message from the server, which is trusted with memory."""


def main() -> None:
    given = _arguments()
    end_with(given.parent, by=signal.SIGKILL)
    torch.set_num_threads(1)
    worker = NodeWorker(
        name=given.name,
        data=given.data,
        state=given.state,
        limits=given.limits,
        rehearsal=given.rehearsal,
        server=given.server,
    )
    with socket.socket(fileno=given.socket) as connection:
        while True:
            try:
                letter = receive_bytes(connection, largest=LARGEST)
            except (EOFError, ConnectionError):
                return
            send_bytes(connection, worker.say(letter).to_bytes())


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("parent", type=int)
    parser.add_argument("--name", required=True)
    parser.add_argument("--server", default="")
    for name in ("--data", "--state", "--limits"):
        parser.add_argument(name, type=Path, required=True)
    parser.add_argument("--rehearsal", action="store_true")
    parser.add_argument("--socket", type=int, required=True)
    return parser.parse_args()


if __name__ == "__main__":
    main()
