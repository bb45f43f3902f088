"""Importing torch and what stands on it, without what the command at hand does not need.

The garbage collector does not search through half-built modules. Where nothing is trained, torch's rules for tensors without
values, a quarter of its import, wait until somebody wants them.
"""

from __future__ import annotations

import gc
import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import TypeVar

T = TypeVar("T")

POSTPONED = "torch._meta_registrations"


@contextmanager
def quick_imports(*, whole_torch: bool = True) -> Iterator[None]:
    """Pause the collector for the imports inside, and keep what they made out of every later collection.

    Modules live as long as the process does, so looking for garbage among them only costs time: during the imports, in
    each full collection of a long run, and when the interpreter ends. Where torch is there already, nothing is changed.
    """
    if "torch" in sys.modules or not gc.isenabled():
        yield
        return
    gc.disable()
    if not whole_torch:
        sys.modules[POSTPONED] = _StandIn(POSTPONED)
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def with_what_it_needs(work: Callable[[], T]) -> T:
    """The result of `work`, which must have no side effects: where it fails for want of a whole torch, it is done again with one."""
    try:
        return work()
    except RuntimeError:
        if not _is_postponed():
            raise
        complete_torch()
        return work()


def complete_torch() -> None:
    """Import what was postponed; to be called before code that is not ours, which may do anything with torch."""
    if _is_postponed():
        del sys.modules[POSTPONED]
        importlib.import_module(POSTPONED)


def _is_postponed() -> bool:
    return isinstance(sys.modules.get(POSTPONED), _StandIn)


class _StandIn(ModuleType):
    """Takes a module's place until the first look inside."""

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        complete_torch()
        return getattr(sys.modules[self.__name__], name)
