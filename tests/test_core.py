"""The boundary: private values cannot be read, bounded ones only summed, released ones only minted by the ledger."""

import copy
import pickle

import pytest
import torch

from sordino.core import Bounded, Private, Released, seal, unwrap


def test_private_is_mapped_but_never_shown():
    secret = Private([1, 2, 3])
    assert unwrap(secret.map(sum)) == 6
    assert "1" not in repr(secret)
    with pytest.raises(AttributeError):
        _ = secret.value  # type: ignore[attr-defined]
    for leak in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError):
            leak(secret)


def test_private_values_join_into_one():
    assert unwrap(Private.join([Private(1), Private(2)])) == [1, 2]


def test_only_the_trusted_base_makes_bounded_and_released_values():
    with pytest.raises(TypeError, match="trusted base"):
        Bounded(torch.ones(1), bound=1.0, norm="l2", units=1, key=object())
    with pytest.raises(TypeError, match="door"):
        Released(1, key=object())


def test_bounded_values_add_up_and_keep_their_bound():
    one, two = (seal(torch.full((2,), x), bound=1.0, norm="l2", units=1) for x in (0.1, 0.2))
    total = one + two
    assert (total.bound, total.norm, total.units) == (1.0, "l2", 2)
    torch.testing.assert_close(unwrap(total), torch.full((2,), 0.3))


@pytest.mark.parametrize(("bound", "norm"), [(2.0, "l2"), (1.0, "l1")])
def test_differently_bounded_values_do_not_add(bound, norm):
    with pytest.raises(TypeError, match="cannot add"):
        seal(torch.ones(1), bound=1.0, norm="l2", units=1) + seal(torch.ones(1), bound=bound, norm=norm, units=1)


def test_bounded_values_offer_no_other_arithmetic():
    value = seal(torch.ones(1), bound=1.0, norm="l2", units=1)
    for operation in (lambda: value * 2, lambda: value - value, lambda: value[0], lambda: float(value)):
        with pytest.raises(TypeError):
            operation()


def test_released_values_are_post_processed_freely():
    assert Released.public(2).map(lambda x: x + 1).value == 3
