"""The process of the `sordino` command."""

from __future__ import annotations

import atexit
import os
import signal
import sys
from types import FrameType

from sordino.cli import STOPPED, stopped_sentence
from sordino.cli import main as command

SHOW_CURSOR = b"\x1b[?25h"
"""A progress bar hides it."""


def main() -> None:
    """Do the command in `sys.argv`, and leave with its exit code. A reader that went away, such as `head`, has what it wanted."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, Interrupt())
        # When Python takes itself apart it gives up the handler; a late Ctrl-C must not change the exit code then.
        atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)
    try:
        command()
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


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


if __name__ == "__main__":
    main()
