"""A process that has imported everything and forks one child for each command, so that a start costs milliseconds.

It is run by file name inside the tree under test, knows nothing else of this package, and does what the `sordino` command does.
One connection to its socket is one command: a line of JSON comes in, `{"pid": …}` goes out, and `{"code": …}` when it has
ended; a line `kill` in between is a SIGKILL. When its standard input closes, it ends all its children and itself.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import json
import os
import pkgutil
import resource
import selectors
import signal
import socket
import sys
import time
import traceback
from typing import Any

BESIDES = (
    *("dp_accounting", "scipy.fft", "scipy.stats", "scipy.optimize"),
    *("pandas", "rich.console", "rich.live", "rich.table", "rich.progress"),
)
KEPT_OUT = ("sordino.__main__", "sordino.testing")


def preload() -> None:
    """Import all of sordino, and what it imports late."""
    import sordino

    found = [module.name for module in pkgutil.walk_packages(sordino.__path__, "sordino.", onerror=lambda name: None)]
    for name in (*found, *BESIDES):
        if not name.startswith(KEPT_OUT):
            with contextlib.suppress(Exception):
                importlib.import_module(name)
    gc.collect()
    gc.freeze()


def become(job: dict[str, Any]) -> None:
    """Turn this fresh child into the command of the job; never returns."""
    code = 1
    try:
        _redirect(job)
        if job["memory"]:
            _limit_memory(job["memory"])
        if job["cpu"]:
            resource.setrlimit(resource.RLIMIT_CPU, (job["cpu"], job["cpu"]))
        if job["fault"]:
            _arm(job["fault"])
        sys.argv = ["sordino", *job["argv"]]
        from sordino.__main__ import main

        time.sleep(max(0.0, job["begin_at"] - time.time()))
        main()
        code = 0
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _redirect(job: dict[str, Any]) -> None:
    os.chdir(job["cwd"])
    os.environ.update(job["env"])
    for number, name, flags in (
        (0, os.devnull, os.O_RDONLY),
        (1, job["out"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
        (2, job["err"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
    ):
        opened = os.open(name, flags, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _limit_memory(more: int) -> None:
    """So many bytes of address space on top of what the imports take: a mistake must not take the machine down."""
    with open("/proc/self/statm", encoding="ascii") as file:
        now = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + more, now + more))


def _arm(fault: dict[str, Any]) -> None:
    shim = ctypes.CDLL(os.environ["LD_PRELOAD"])
    shim.torture_arm(
        os.fsencode(fault["root"]), os.fsencode(fault["trace"]), fault["at"], fault["errno"], fault["mode"].encode()
    )


class Zygote:
    """The loop: commands come in, children come to an end."""

    def __init__(self, path: str) -> None:
        self._selector = selectors.DefaultSelector()
        self._door = socket.socket(socket.AF_UNIX)
        self._door.bind(path)
        self._door.listen(64)
        self._selector.register(self._door, selectors.EVENT_READ, self._accept)
        self._selector.register(0, selectors.EVENT_READ, self._leave)
        self._children: dict[int, tuple[int, socket.socket]] = {}

    def serve(self) -> None:
        while True:
            for key, _ in self._selector.select():
                key.data(key.fileobj)

    def _accept(self, _: Any) -> None:
        connection, _ = self._door.accept()
        self._selector.register(connection, selectors.EVENT_READ, self._hear)

    def _hear(self, connection: socket.socket) -> None:
        message = connection.recv(1 << 20)
        pid = next((pid for pid, (_, owner) in self._children.items() if owner is connection), None)
        if pid is not None:
            os.kill(pid, signal.SIGKILL)
            if not message:
                self._selector.unregister(connection)
            return
        if not message:
            self._close(connection)
            return
        while not message.endswith(b"\n"):
            message += connection.recv(1 << 20)
        self._bear(json.loads(message), connection)

    def _bear(self, job: dict[str, Any], connection: socket.socket) -> None:
        pid = os.fork()
        if pid == 0:
            for key in list(self._selector.get_map().values()):
                if key.fileobj != 0:
                    os.close(key.fd)
            become(job)
        watched = os.pidfd_open(pid)
        self._children[pid] = (watched, connection)
        self._selector.register(watched, selectors.EVENT_READ, lambda _, pid=pid: self._bury(pid))
        self._tell(connection, {"pid": pid})

    def _bury(self, pid: int) -> None:
        watched, connection = self._children.pop(pid)
        self._selector.unregister(watched)
        os.close(watched)
        _, status = os.waitpid(pid, 0)
        self._tell(connection, {"code": os.waitstatus_to_exitcode(status)})
        self._close(connection)

    def _tell(self, connection: socket.socket, message: dict[str, Any]) -> None:
        with contextlib.suppress(OSError):
            connection.sendall(json.dumps(message).encode() + b"\n")

    def _close(self, connection: socket.socket) -> None:
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(connection)
        connection.close()

    def _leave(self, _: Any) -> None:
        if os.read(0, 1):
            return
        for pid in self._children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        os._exit(0)


if __name__ == "__main__":
    preload()
    zygote = Zygote(sys.argv[1])
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    zygote.serve()
