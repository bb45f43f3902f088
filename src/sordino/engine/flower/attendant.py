"""The light half of a node: takes parcels from the SuperNode, looks at their seal, and has a worker answer them.

It holds no torch and no row. The worker, which does, is started when there is work and ended when there has been none for a while.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import httpx
from flwr.app import Message
from flwr.app.error import Error
from flwr.common.constant import ErrorCode, SubStatus
from flwr.proto.runtime_pb2 import AcquireTaskRequest
from flwr.supercore.constant import TaskType
from flwr.supercore.inflatable.inflatable_utils import ObjectPullError
from flwr.supernode.runtime.run_clientapp import pull_task_input, push_message, push_task_output

from sordino.core import SordinoError
from sordino.engine.flower.heartbeat import Heartbeat
from sordino.engine.flower.pace import Bell
from sordino.engine.flower.parcel import SealReader, packed
from sordino.engine.flower.patience import runtime_client
from sordino.engine.wire.lengths import receive_bytes, send_bytes

LARGEST = 1 << 36
"""Bytes of a message; the SuperNode on the same machine is trusted with memory."""
_LOOK_SECONDS = 5.0
"""How often the worker is looked at where nothing is asked of it."""
_NODE_SECONDS = 30.0

Log = Callable[[str], None]


@dataclass(kw_only=True)
class Worker:
    """The process beside the rows, while there is one.

    Args:
        command: starts it; the number of its socket is added.
        idle_seconds: how long it is kept without work.
    """

    command: Sequence[str]
    idle_seconds: float = 300.0
    process: subprocess.Popen[bytes] | None = None
    _socket: socket.socket | None = field(default=None, init=False)
    _used: float = field(default=0.0, init=False)
    _starter: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1), init=False)
    """The process ends with the thread that started it, so that is one which lives as long as the node."""

    def answer(self, letters: Sequence[bytes]) -> list[bytes]:
        """What the worker says to each of them; raises `SordinoError` where it ends instead."""
        connection = self._connection()
        self._used = time.monotonic()
        try:
            said = []
            for letter in letters:
                send_bytes(connection, letter)
                said.append(receive_bytes(connection, largest=LARGEST))
            return said
        except (EOFError, OSError) as error:
            self.stop()
            raise SordinoError(f"The process that works on requests has ended ({error}).") from error

    def rest(self) -> None:
        """End the process where nothing has been asked of it for a while."""
        if self._socket is not None and time.monotonic() - self._used > self.idle_seconds:
            self.stop()

    def stop(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def _connection(self) -> socket.socket:
        if self._socket is None or self.process is None or self.process.poll() is not None:
            self.stop()
            ours, theirs = socket.socketpair()
            with theirs:
                command = [*self.command, str(theirs.fileno())]
                self.process = self._starter.submit(
                    subprocess.Popen,
                    command,
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    stderr=sys.stderr,
                ).result()
            self._socket = ours
        return self._socket


@dataclass(kw_only=True)
class Attendant:
    """Answers until the process ends."""

    address: str
    """Of the SuperNode's own interface, on loopback."""
    secret: bytes
    seals: SealReader
    worker: Worker
    log: Log
    bell: Bell
    _working: threading.Lock = field(default_factory=threading.Lock, init=False)

    def serve(self) -> None:
        """Take tasks for ever, each in a thread: one whose message never arrives whole, because its server was killed, waits alone."""
        client = runtime_client(self.address, component="SuperExec", seconds=_NODE_SECONDS, secret=self.secret)
        while True:
            if not self.bell.work.wait(_LOOK_SECONDS):
                with self._working:
                    self.worker.rest()
                continue
            self.bell.work.clear()
            try:
                found = client.AcquireTask(AcquireTaskRequest(supported_task_types=[TaskType.CLIENT_APP]))
                if found.HasField("task") and found.token:
                    threading.Thread(target=self._serve_one, args=(str(found.token),), daemon=True).start()
            except httpx.HTTPError as error:
                self.log(f"The SuperNode cannot be reached ({error}).")

    def _serve_one(self, token: str) -> None:
        try:
            self._answer_task(token)
        except (httpx.HTTPError, RuntimeError, ObjectPullError) as error:
            self.log(f"A request could not be answered ({error}).")

    def _answer_task(self, token: str) -> None:
        client = runtime_client(self.address, component="flwr-clientapp", seconds=_NODE_SECONDS, token=token)
        heartbeat = Heartbeat(client)
        details = ""
        try:
            message, context, _, _ = pull_task_input(client)
            reply, details = self._reply(message)
            push_message(client, reply, context)
            self.bell.answer.set()
            done = SubStatus.FAILED if details else SubStatus.COMPLETED
            push_task_output(client=client, context=context, sub_status=done, details=details)
        finally:
            heartbeat.stop()
            client.close()

    def _reply(self, message: Message) -> tuple[Message, str]:
        """What is sent back, and what went wrong: a request that the server did not seal is not even shown to the worker."""
        try:
            letters = self.seals.opened(message.content)
            with self._working:
                said = self.worker.answer(letters)
            return Message(content=packed(said), reply_to=message), ""
        except SordinoError as error:
            self.log(str(error))
            failed = Error(code=ErrorCode.CLIENT_APP_RAISED_EXCEPTION, reason=str(error))
            return Message(failed, reply_to=message), str(error)
