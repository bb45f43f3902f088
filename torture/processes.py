"""Real processes of the tree under test: started within milliseconds, killed at will, and what they left behind."""

from __future__ import annotations

import itertools
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from torture.faults import Fault

ZYGOTE = Path(__file__).with_name("zygote.py")
KILLED = -signal.SIGKILL
OUT_OF_TIME = (-signal.SIGXCPU, KILLED)
LONGEST_SECONDS = 300.0
"""No command of this suite takes as long; one that does hangs."""


class TimedOut(Exception):
    """A command did not end in time and was killed."""


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a command came to its end: `code` is its exit code, or minus the signal that ended it."""

    argv: tuple[str, ...]
    code: int
    out: str
    err: str
    seconds: float

    @property
    def killed(self) -> bool:
        return self.code == KILLED


class Child:
    """A command at work."""

    def __init__(self, connection: socket.socket, argv: Sequence[str], out: Path, err: Path) -> None:
        self._connection, self._argv, self._out, self._err = connection, tuple(argv), out, err
        self._begin = time.perf_counter()
        self._heard = b""
        self.pid = int(self._listen(LONGEST_SECONDS)["pid"])

    def kill(self) -> None:
        """SIGKILL; nothing happens where the command has ended already."""
        try:
            self._connection.sendall(b"kill\n")
        except OSError:
            return

    def wait(self, limit: float = LONGEST_SECONDS) -> Ended:
        """Its end; a command that takes longer than `limit` seconds is killed, and `TimedOut` raised."""
        try:
            code = int(self._listen(limit)["code"])
        except TimeoutError:
            self.kill()
            self._listen(LONGEST_SECONDS)
            self._close()
            raise TimedOut(f"`sordino {' '.join(self._argv)}` did not end within {limit:g} s") from None
        seconds = time.perf_counter() - self._begin
        return Ended(argv=self._argv, code=code, out=_text(self._out), err=_text(self._err), seconds=seconds)

    def wait_or_kill(self, after: float) -> Ended:
        """Its end, which comes by SIGKILL after so many seconds."""
        if not select.select([self._connection], [], [], max(0.0, after))[0]:
            self.kill()
        return self.wait()

    def _listen(self, limit: float) -> dict[str, Any]:
        until = time.monotonic() + limit
        while b"\n" not in self._heard:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self._connection], [], [], left)[0]:
                raise TimeoutError
            more = self._connection.recv(4096)
            if not more:
                raise RuntimeError("the process that forks commands is gone")
            self._heard += more
        line, _, self._heard = self._heard.partition(b"\n")
        message: dict[str, Any] = json.loads(line)
        if "code" in message:
            self._connection.close()
        return message

    def _close(self) -> None:
        for path in (self._out, self._err):
            path.unlink(missing_ok=True)


class Launcher:
    """Starts commands of one tree; a context that ends all of them."""

    def __init__(self, *, folder: Path, source: Path | None, shim: Path | None, env: Mapping[str, str]) -> None:
        self._folder, self._source, self._shim, self._env = folder, source, shim, env
        self._numbers = itertools.count()

    def __enter__(self) -> Launcher:
        self._folder.mkdir(parents=True, exist_ok=True)
        self._path = str(self._folder / "socket")
        self._zygote = subprocess.Popen(
            [sys.executable, "-P", str(ZYGOTE), self._path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=self._environment(),
            cwd=self._folder,
            start_new_session=True,
        )
        assert self._zygote.stdout is not None
        if self._zygote.stdout.readline() != b"ready\n":
            raise RuntimeError("the tree under test cannot be imported; see the message above")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._zygote.stdin is not None
        self._zygote.stdin.close()
        self._zygote.wait()

    def start(
        self,
        *argv: str,
        cwd: Path,
        env: Mapping[str, str] | None = None,
        fault: Fault | None = None,
        begin_at: float = 0.0,
        memory: int = 0,
        cpu: int = 0,
    ) -> Child:
        """Begin a command; with `begin_at` (a time.time()) it waits for that moment first.

        `memory` is in bytes on top of what the imports take and `cpu` in seconds of computing; 0 is no limit.
        """
        number = next(self._numbers)
        out, err = (self._folder / f"{number}.{name}" for name in ("out", "err"))
        job = {
            "argv": argv,
            "cwd": str(cwd),
            "env": dict(env or {}),
            "out": str(out),
            "err": str(err),
            "fault": fault.to_json() if fault else None,
            "begin_at": begin_at,
            "memory": memory,
            "cpu": cpu,
        }
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(self._path)
        connection.sendall(json.dumps(job).encode() + b"\n")
        return Child(connection, argv, out, err)

    def run(self, *argv: str, cwd: Path, limit: float = LONGEST_SECONDS, **settings: Any) -> Ended:
        return self.start(*argv, cwd=cwd, **settings).wait(limit)

    def start_plainly(self, *argv: str, cwd: Path) -> subprocess.Popen[bytes]:
        """The same command as a user starts it: a new interpreter that imports everything."""
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "sordino", *argv],
            cwd=cwd,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def _environment(self) -> dict[str, str]:
        chosen = {**os.environ, **self._env, "OMP_NUM_THREADS": "1", "COLUMNS": "200", "NO_COLOR": "1"}
        if self._source is not None:
            chosen["PYTHONPATH"] = str(self._source)
        if self._shim is not None:
            chosen["LD_PRELOAD"] = str(self._shim)
        return chosen


def _text(path: Path) -> str:
    text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
    path.unlink(missing_ok=True)
    return text
