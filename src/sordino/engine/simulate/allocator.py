"""Keeps freed memory in the process: glibc would hand large blocks back and pay page faults to get them again."""

from __future__ import annotations

import ctypes
import functools
import os
import platform
import sys
from contextlib import suppress

from sordino.core import SordinoError

VARIABLE = "SORDINO_ALLOCATOR"

_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_M_MMAP_MAX = -4
_LARGEST_INT = 2**31 - 1


@functools.cache
def tune_allocator() -> bool:
    """Tune the allocator, once per process; tells whether it was tuned.

    `SORDINO_ALLOCATOR=system` leaves it alone. Anything but glibc on Linux is left alone too.
    """
    choice = os.environ.get(VARIABLE, "tuned")
    if choice not in ("tuned", "system"):
        raise SordinoError(f"{VARIABLE} must be 'tuned' or 'system', but got {choice!r}; correct it or unset it.")
    if choice == "system" or sys.platform != "linux" or platform.libc_ver()[0] != "glibc":
        return False
    mallopt = ctypes.CDLL(None).mallopt
    # Setting the trim threshold also stops glibc from adapting the mmap threshold by itself.
    wishes = ((_M_MMAP_MAX, 0), (_M_MMAP_THRESHOLD, 1 << 30), (_M_TRIM_THRESHOLD, _LARGEST_INT))
    return all([mallopt(option, value) == 1 for option, value in wishes])


def hand_back() -> None:
    """Give the system what was freed: between two runs of one process, where nobody waits for it."""
    with suppress(OSError, AttributeError):  # only glibc knows how
        ctypes.CDLL(None).malloc_trim(0)
