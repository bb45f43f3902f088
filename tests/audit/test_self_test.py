"""Broken twins are caught and real parts are not: a fast part of `sordino audit --self-test`, which `make torture` runs whole."""

import pytest
import torch

from sordino.audit.self_test.benches import BENCHES
from sordino.audit.self_test.patches import Patches
from sordino.audit.self_test.running import FAST, REAL, TWINS, Outcome, real_benches, to_json, try_twin
from sordino.privacy.door import Permit
from sordino.report.audit_table import self_test_report


@pytest.mark.parametrize("bench", ["central", "one step, large rate", "not finite"])
def test_nothing_alarms_on_the_real_parts(bench):
    assert try_twin(REAL, bench).right


@pytest.mark.parametrize("twin", FAST)
def test_a_twin_is_caught_on_its_first_bench(twin):
    assert try_twin(twin, TWINS[twin][1][0]).alarms


def test_there_are_enough_twins_and_each_has_a_bench():
    assert len(TWINS) >= 15
    assert all(bench in BENCHES for _, benches in TWINS.values() for bench in benches)
    assert {bench for _, benches in TWINS.values() for bench in benches} | set(real_benches()) == set(BENCHES)


def test_what_was_broken_is_put_back_whatever_happens():
    right = Permit._noise
    with pytest.raises(RuntimeError), Patches() as patch:
        patch.setattr(Permit, "_noise", lambda *given: torch.zeros(1))
        raise RuntimeError
    assert Permit._noise is right


def test_a_missed_twin_and_a_false_alarm_both_fail_the_self_test():
    missed = Outcome(twin="noise halved", bench="central", alarms=())
    false = Outcome(twin=REAL, bench="central", alarms=("canaries",))
    right = Outcome(twin=REAL, bench="central", alarms=())
    assert to_json([right])["holds"]
    for wrong in (missed, false):
        content = to_json([right, wrong])
        assert not content["holds"]
        assert self_test_report(content)
