"""The allocator is tuned once, only where that makes sense, and can be left alone."""

from __future__ import annotations

import ctypes
import os
import platform
import subprocess
import sys
from collections.abc import Iterator

import pytest

from sordino.core import SordinoError
from sordino.engine.simulate import allocator
from sordino.engine.simulate.allocator import VARIABLE, tune_allocator

ON_GLIBC = sys.platform == "linux" and platform.libc_ver()[0] == "glibc"

# Page faults of a block of 32 MB that is filled, freed and filled again.
COUNT_FAULTS = """
import resource
from sordino.engine.simulate.allocator import tune_allocator
tune_allocator()
bytearray(b"x") * 2**25
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(4):
    bytearray(b"x") * 2**25
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""

# Megabytes that a process still holds of 256 that it freed below something that stays, and after it handed them back.
COUNT_HELD = """
import torch
from sordino.engine.costing.process_memory import resident
from sordino.engine.simulate.allocator import hand_back, tune_allocator
tune_allocator()
before = resident()
large, small = torch.ones(2**26), torch.ones(2**16)
del large
held = resident()
hand_back()
print((held - before) >> 20, (resident() - before) >> 20)
"""


class FakeLibrary:
    def __init__(self, answer: int) -> None:
        self.calls: list[tuple[int, int]] = []
        self._answer = answer

    def mallopt(self, option: int, value: int) -> int:
        self.calls.append((option, value))
        return self._answer


@pytest.fixture(autouse=True)
def forgetful(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv(VARIABLE, raising=False)
    tune_allocator.cache_clear()
    yield
    tune_allocator.cache_clear()


def install(
    monkeypatch: pytest.MonkeyPatch, *, system: str = "linux", libc: str = "glibc", answer: int = 1
) -> FakeLibrary:
    library = FakeLibrary(answer)
    monkeypatch.setattr(allocator.sys, "platform", system)
    monkeypatch.setattr(platform, "libc_ver", lambda: (libc, ""))
    monkeypatch.setattr(ctypes, "CDLL", lambda _: library)
    return library


def test_glibc_is_tuned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    library = install(monkeypatch)
    assert tune_allocator() and tune_allocator()
    assert len(library.calls) == 3
    settings = dict(library.calls)
    assert settings[-4] == 0
    assert settings[-3] >= 2**30 and settings[-1] >= 2**30


@pytest.mark.parametrize(("system", "libc"), [("linux", ""), ("darwin", ""), ("win32", "")])
def test_other_systems_are_left_alone(monkeypatch: pytest.MonkeyPatch, system: str, libc: str) -> None:
    library = install(monkeypatch, system=system, libc=libc)
    assert not tune_allocator()
    assert library.calls == []


def test_the_environment_can_leave_it_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    library = install(monkeypatch)
    monkeypatch.setenv(VARIABLE, "system")
    assert not tune_allocator()
    assert library.calls == []


def test_a_refusal_of_the_library_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, answer=0)
    assert not tune_allocator()


def test_an_unknown_choice_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "jemalloc")
    with pytest.raises(SordinoError, match="'tuned' or 'system'"):
        tune_allocator()


@pytest.mark.skipif(not ON_GLIBC, reason="only glibc is tuned")
def test_a_freed_block_is_reused_without_page_faults() -> None:
    faults = {}
    for choice in ("tuned", "system"):
        run = subprocess.run(
            [sys.executable, "-c", COUNT_FAULTS],
            env=os.environ | {VARIABLE: choice},
            capture_output=True,
            text=True,
            check=True,
        )
        faults[choice] = int(run.stdout)
    assert faults["tuned"] * 10 < faults["system"]


@pytest.mark.skipif(not ON_GLIBC, reason="the system's allocator is not glibc's")
def test_freed_memory_is_kept_until_it_is_handed_back() -> None:
    done = subprocess.run([sys.executable, "-c", COUNT_HELD], capture_output=True, text=True, check=True)
    held, left = map(int, done.stdout.split())
    assert held >= 250 and left < 50
