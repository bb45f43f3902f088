"""Importing torch and what stands on it while the garbage collector rests."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quick_imports() -> Iterator[None]:
    """Pause the collector for the imports inside, and keep what they made out of every later collection.

    Modules live as long as the process does, so looking for garbage among them only costs time: during the imports, in
    each full collection of a long run, and when the interpreter ends. Where torch is there already, nothing is changed.
    """
    if "torch" in sys.modules or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
