"""All clients of a run as processes of this machine, with the simulator's interface."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from sordino.core import SordinoError
from sordino.engine.client.limits import named_parts
from sordino.engine.messages import Missing
from sordino.engine.process.dealt import begin_message, phase_message
from sordino.engine.process.transport import Peer, SocketTransport
from sordino.engine.setup import Setup
from sordino.engine.wire.message import Message
from sordino.methods.method import State
from sordino.outside import experiment_folder


class Processes:
    """One process a client: it has its rows, its noise, its limits and its ledger, and nothing of anybody else's."""

    def __init__(
        self, setup: Setup, *, folder: Path, run: str, limits: Mapping[int, Mapping[str, Any]] | None = None
    ) -> None:
        self._setup, self._folder = setup, folder
        self._running: list[subprocess.Popen[bytes]] = []
        clients = range(setup.federated.partition.clients)
        peers = [Peer(client=client, connection=self._start()) for client in clients]
        self.transport = SocketTransport(
            peers=peers, method=setup.method, seconds=setup.experiment.engine.client_seconds
        )
        parts = list(named_parts(setup.experiment.model_dump(mode="json")))
        own = limits or {client: {"outside_parts": parts} for client in clients}
        self._tell_all(
            begin_message(setup, client, run=run, folder=self._folder_of(client), limits=own.get(client, {}))
            for client in clients
        )
        self.enter(setup)

    def enter(self, setup: Setup) -> None:
        """Begin a phase: every client gets the weights and its own rows."""
        self._setup = setup
        self._tell_all(phase_message(setup, peer.client) for peer in self.transport.peers)

    @property
    def zeroed(self) -> int:
        return self.transport.zeroed

    def figures(self, number: int, state: State) -> dict[str, Any]:
        """None: nobody but a client sees its own figures."""
        return {}

    def keep(self, path: Path) -> None:
        self._tell_who_is_there(self._about(path, "keep") for _ in self.transport.peers)

    def recall(self, path: Path) -> None:
        self._tell_all(self._about(path, "recall") for _ in self.transport.peers)

    def close(self) -> None:
        """Close every socket, whereupon the processes end by themselves; who does not is ended."""
        self.transport.close()
        for peer in self.transport.peers:
            peer.connection.close()
        for process in self._running:
            try:
                process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    @property
    def pids(self) -> list[int]:
        """The process of each client."""
        return [process.pid for process in self._running]

    def _about(self, path: Path, what: str) -> Message:
        return Message(content={"what": what, "file": path.name})

    def _folder_of(self, client: int) -> Path:
        return self._folder / f"client-{client}"

    def _start(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        with theirs:
            handed = [str(theirs.fileno()), str(experiment_folder())]
            command = [sys.executable, "-m", "sordino.engine.process.client", *handed]
            environment = {**os.environ, "OMP_NUM_THREADS": "1"}
            self._running.append(subprocess.Popen(command, pass_fds=[theirs.fileno()], env=environment))
        return ours

    def _tell_all(self, messages: Iterable[Message]) -> None:
        """Say something to every client. Each has to understand: one that refuses or is not there stops the run with its reason."""
        for said in self.transport.tell(list(messages)):
            if isinstance(said, Missing):
                raise SordinoError(f"Client {said.client} is not ready: {said.because}")
            if said.content.get("what") == "refused":
                raise SordinoError(f"A client refuses this run: {said.content.get('because')}")

    def _tell_who_is_there(self, messages: Iterable[Message]) -> None:
        """The same for what must not stop a run: whoever is gone has left its seat empty already."""
        self.transport.tell(list(messages))
