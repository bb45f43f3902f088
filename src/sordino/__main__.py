"""The process of the `sordino` command: it ends as soon as the command has."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
from types import FrameType

from sordino.cli import STOPPED, stopped_sentence
from sordino.cli import main as command

SHOW_CURSOR = b"\x1b[?25h"
"""A progress bar hides it."""


def main() -> None:
    """Do the command in `sys.argv`, and leave with its exit code."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, Interrupt())
    try:
        command()
    except SystemExit as stop:
        if stop.code is None or isinstance(stop.code, int):
            _leave(stop.code or 0)
        raise
    _leave(0)


class Interrupt:
    """The first Ctrl-C ends the command in good order, which may take as long as a client trains; the next one ends it at once.

    Every file of a run is whole or not there, and the ledger is synced line by line, so nothing is lost by that.
    """

    def __init__(self) -> None:
        self._again = False

    def __call__(self, signal_number: int, frame: FrameType | None) -> None:
        if not self._again:
            self._again = True
            raise KeyboardInterrupt
        os.write(2, (SHOW_CURSOR if os.isatty(2) else b"") + stopped_sentence(sys.argv[1:]).encode())
        os._exit(STOPPED)


def _leave(code: int) -> None:
    """End this process without taking torch's modules apart one by one, which takes longer than many a command.

    What was promised for the end is done first. Where that may not be everything (threads at work, a profiler or debugger
    that looks on, an output that cannot be written), this returns, and the process ends the slow way. A reader that went
    away, such as `head`, has what it wanted.
    """
    others = [thread for thread in threading.enumerate() if thread is not threading.main_thread()]
    if sys.gettrace() or sys.getprofile() or any(not thread.daemon for thread in others):
        return
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except BrokenPipeError:
        code = code or 1
    except (OSError, ValueError):
        return
    os._exit(code)


if __name__ == "__main__":
    main()
