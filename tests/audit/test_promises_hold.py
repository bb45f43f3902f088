"""No audit proves more than the ledger claims."""

import pytest
from audited import AUDITS, proved_and_claimed


@pytest.mark.parametrize("name", AUDITS)
def test_what_can_be_proved_lies_under_what_is_claimed(name):
    proved, claimed = proved_and_claimed(name)
    assert 0 <= proved <= claimed
    assert claimed < float("inf")
