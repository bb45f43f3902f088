"""Imports of the command line: the collector rests meanwhile, and what training does not need waits until it is wanted."""

import gc
import subprocess
import sys

import pytest

from sordino.startup import quick_imports, with_what_it_needs


@pytest.fixture
def before_torch(monkeypatch):
    """As if torch had not been imported yet."""
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    yield
    gc.unfreeze()


def test_the_collector_rests_during_the_imports_and_leaves_them_alone_afterwards(before_torch):
    assert gc.get_freeze_count() == 0
    with quick_imports():
        assert not gc.isenabled()
        made = [object()]
    assert gc.isenabled()
    assert gc.get_freeze_count() > 0
    assert not any(kept is made for kept in gc.get_objects())


def test_the_collector_works_again_after_a_failed_import(before_torch):
    with pytest.raises(ModuleNotFoundError), quick_imports():
        raise ModuleNotFoundError
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off(before_torch):
    gc.disable()
    try:
        with quick_imports():
            pass
        assert not gc.isenabled()
        assert gc.get_freeze_count() == 0
    finally:
        gc.enable()


def test_later_imports_do_not_freeze_what_the_programme_made_meanwhile(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", sys)
    with quick_imports():
        assert gc.isenabled()
    assert gc.get_freeze_count() == 0


UNTIL_WANTED = """
import sys
from sordino.startup import POSTPONED, complete_torch, quick_imports, with_what_it_needs
with quick_imports(whole_torch=False):
    import torch
assert not hasattr(sys.modules[POSTPONED], "__file__")
{action}
assert hasattr(sys.modules[POSTPONED], "__file__")
assert torch.linalg.eigh(torch.empty(3, 4, 4, device="meta")).eigenvalues.shape == (3, 4)
"""

USERS_MODEL = """
import pytest
from sordino.core import SordinoError
from sordino.models import build
with pytest.raises(SordinoError, match="PYTHONPATH"):
    build("nowhere:model", shape=(3,), classes=2, seed=0)
"""


@pytest.mark.parametrize(
    "action",
    [
        "complete_torch(); complete_torch()",
        "sys.modules[POSTPONED].meta__linalg_eigh",
        "assert with_what_it_needs(lambda: torch.Generator().manual_seed(7)).initial_seed() == 7",
        USERS_MODEL,
    ],
    ids=["asked for", "looked into", "missed", "a model of the user's"],
)
def test_what_torch_postponed_comes_when_it_is_wanted(action):
    done = subprocess.run(
        [sys.executable, "-c", UNTIL_WANTED.format(action=action)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_work_that_fails_by_itself_is_not_done_again():
    tries = []

    def work():
        tries.append(1)
        raise RuntimeError("by itself")

    with pytest.raises(RuntimeError, match="by itself"):
        with_what_it_needs(work)
    assert len(tries) == 1
