"""Processes that end with whoever started them: by an orderly stop, or by the kernel where there was none."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sordino.files import make_folder

_SET_DEATH_SIGNAL = 1
_PATIENCE_SECONDS = 8.0


@dataclass(frozen=True, kw_only=True)
class Leashed:
    """A process of ours, with what it says in a file.

    It ends with the *thread* that started it, also where that was killed: start it from one that lives as long as it should.
    """

    process: subprocess.Popen[bytes]
    log: Path
    began: float = field(default_factory=time.time)
    """When, in seconds since 1970."""

    @staticmethod
    def start(module: str, arguments: Sequence[str], *, log: Path, home: Path) -> Leashed:
        """`python -m module PARENT ARGUMENTS`, in a session of its own, so that Ctrl-C reaches whoever started it first.

        Args:
            module: its main calls `end_with(parent)` with the first argument.
            arguments: what follows it.
            log: takes whatever the process prints.
            home: where Flower keeps its own files.
        """
        make_folder(log.parent)
        make_folder(home)
        command = [sys.executable, "-m", module, str(os.getpid()), *arguments]
        with log.open("ab") as output:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=_environment(home),
                start_new_session=True,
            )
        return Leashed(process=process, log=log)

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    @property
    def last_words(self) -> str:
        """The last line that it printed."""
        lines = self.log.read_text(errors="replace").split("\n") if self.log.exists() else []
        return next((line.strip() for line in reversed(lines) if line.strip()), "nothing")

    def stop(self) -> None:
        """Ask it to end; who does not listen is ended."""
        if self.running:
            self.process.terminate()
        try:
            self.process.wait(timeout=_PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def kill(self) -> None:
        """End it as a crash would."""
        self.process.kill()
        self.process.wait()


def stop_all(leashed: Iterable[Leashed]) -> None:
    """Ask all to end at once, and then wait for each."""
    all_of_them = list(leashed)
    for one in all_of_them:
        if one.running:
            one.process.terminate()
    for one in all_of_them:
        one.stop()


def end_with(parent: int, *, by: signal.Signals = signal.SIGTERM) -> None:
    """Have the kernel send this process a signal when `parent` is gone; 0 means nobody. On Linux alone."""
    if parent and sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_SET_DEATH_SIGNAL, int(by), 0, 0, 0)
        if os.getppid() != parent:
            os.kill(os.getpid(), by)


def _environment(home: Path) -> Mapping[str, str]:
    """One thread for numbers, no output held back, and nothing of Flower's in the user's own home."""
    return {**os.environ, "FLWR_HOME": str(home), "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
