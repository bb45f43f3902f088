"""Imports of the command line: the collector rests meanwhile."""

import gc
import sys

import pytest

from sordino.startup import quick_imports


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
