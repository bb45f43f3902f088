"""Contestants in processes of their own that take turns: each waits until it is told to do one round."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PEERS_PYTHON_VARIABLE = "SORDINO_BENCH_PEERS_PYTHON"
"""The interpreter that has the peers installed; this one unless it says otherwise."""

_REPLY = "@reply "
_OFFLINE = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}
_SECONDS_TO_LEAVE = 60.0


def peers_python() -> str:
    return os.environ.get(PEERS_PYTHON_VARIABLE) or sys.executable


def child_environment(tree: Path = ROOT) -> dict[str, str]:
    """What a child needs to find the package of this tree before any other of its name, and to leave the network alone."""
    paths = [str(tree), str(tree / "src"), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, **_OFFLINE, "PYTHONPATH": os.pathsep.join(path for path in paths if path)}


class Absent(Exception):
    """A contestant could not take part; says why."""


class Contestant:
    """The parent's end of one child process."""

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        python: str = sys.executable,
        variables: Mapping[str, str] | None = None,
        tree: Path = ROOT,
    ) -> None:
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115  (open for as long as the child lives)
        try:
            self._process = subprocess.Popen(
                [python, *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                text=True,
                cwd=tree,
                env={**child_environment(tree), **(variables or {})},
                start_new_session=True,
            )
        except OSError as error:
            raise Absent(f"{python} cannot be started ({error.strerror})") from error

    def turn(self) -> dict[str, Any]:
        """Let it do one round; returns the `seconds` that took and its `note`."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write("turn\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise Absent(self._last_words()) from None
        for line in self._process.stdout:
            if line.startswith(_REPLY):
                reply: dict[str, Any] = json.loads(line.removeprefix(_REPLY))
                return reply
        raise Absent(self._last_words())

    def leave(self) -> None:
        """Tell it that there are no more turns, and end only this process and its own group if it stays."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(_SECONDS_TO_LEAVE)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._log.close()

    def _last_words(self) -> str:
        self._log.seek(0)
        lines = [line.strip() for line in self._log if line.strip()]
        return lines[-1] if lines else "it left without a word"


def turns() -> Iterator[None]:
    """In a child: yields whenever the parent asks for one more round."""
    for _ in sys.stdin:
        yield


def reply(seconds: float, note: str) -> None:
    sys.stdout.write(_REPLY + json.dumps({"seconds": seconds, "note": note}) + "\n")
    sys.stdout.flush()


def serve(do_round: Callable[[], object], *, note: str) -> None:
    """In a child: do and time one round whenever the parent asks for it."""
    for _ in turns():
        begin = time.perf_counter()
        do_round()
        reply(time.perf_counter() - begin, note)
