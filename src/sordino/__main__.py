"""The process of the `sordino` command: it ends as soon as the command has."""

from __future__ import annotations

import atexit
import os
import sys
import threading

from sordino.cli import main as command


def main() -> None:
    """Do the command in `sys.argv`, and leave with its exit code."""
    try:
        command()
    except SystemExit as stop:
        if stop.code is None or isinstance(stop.code, int):
            _leave(stop.code or 0)
        raise
    _leave(0)


def _leave(code: int) -> None:
    """End this process without taking torch's modules apart one by one, which takes longer than many a command.

    What was promised for the end is done first. Where that may not be everything (threads at work, a profiler or debugger
    that looks on, an output that cannot be written), this returns, and the process ends the slow way.
    """
    others = [thread for thread in threading.enumerate() if thread is not threading.main_thread()]
    if sys.gettrace() or sys.getprofile() or any(not thread.daemon for thread in others):
        return
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        return
    os._exit(code)


if __name__ == "__main__":
    main()
