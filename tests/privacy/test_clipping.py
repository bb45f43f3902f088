"""Clipping bounds every unit, whatever comes in."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sordino.core import Private, SordinoError, unwrap
from sordino.privacy.clipping import Clip, bound_update, bound_updates, sum_bounded


def summed(updates, clip, *, like):
    return sum_bounded([bound_update(update, clip, like=like) for update in updates], clip, like=like)


def clip_rows(rows, clip):
    return torch.stack([unwrap(bound_update(Private(row), clip, like=row)) for row in rows])


NUMBERS = st.floats(width=32, allow_nan=True, allow_infinity=True)


@given(
    st.lists(st.lists(NUMBERS, min_size=3, max_size=3), min_size=1, max_size=5),
    st.floats(1e-3, 1e3),
    st.sampled_from(["l1", "l2"]),
)
def test_no_row_leaves_longer_than_the_bound(rows, bound, norm):
    clipped = clip_rows(torch.tensor(rows), Clip(bound=bound, norm=norm)).double()
    assert torch.isfinite(clipped).all()
    assert (torch.linalg.vector_norm(clipped, ord=2 if norm == "l2" else 1, dim=1) <= bound).all()


@pytest.mark.parametrize("numbers", [50_000, 3_000_000])
@pytest.mark.parametrize("value", [0.01, 1e-23])
def test_long_rows_and_vanishing_squares_are_not_found_too_short(numbers, value):
    bound = value * math.sqrt(numbers) / 3
    clipped = clip_rows([torch.full((numbers,), value)], Clip(bound=bound, norm="l2")).double()
    assert 0.99 * bound < torch.linalg.vector_norm(clipped) <= bound


def test_a_factor_too_small_for_full_precision_is_zero():
    rows = torch.tensor([[0.0, 0.0, 3.4012669942723044e38], [1.0, 0.0, 0.0]])
    clipped = clip_rows(rows, Clip(bound=0.03125, norm="l1"))
    assert not clipped[0].any()
    assert clipped[1].any()


def test_short_rows_pass_unchanged():
    rows = torch.tensor([[0.3, 0.4]])
    torch.testing.assert_close(clip_rows(rows, Clip(bound=1.0, norm="l2")), rows, rtol=0, atol=0)


def test_long_rows_keep_their_direction():
    clipped = clip_rows(torch.tensor([[3.0, 4.0]]), Clip(bound=1.0, norm="l2"))
    torch.testing.assert_close(clipped, torch.tensor([[0.6, 0.8]]), rtol=1e-5, atol=0)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_non_finite_contribution_becomes_zero_and_leaves_the_others_alone(bad):
    rows = [Private(torch.tensor([1.0, bad])), Private(torch.tensor([0.5, 0.0]))]
    total = summed(rows, Clip(bound=1.0, norm="l2"), like=torch.zeros(2))
    torch.testing.assert_close(unwrap(total), torch.tensor([0.5, 0.0]))


def test_an_empty_cohort_gives_a_bounded_zero():
    total = summed([], Clip(bound=1.0, norm="l2"), like=torch.ones(4))
    assert unwrap(total).tolist() == [0.0] * 4
    assert total.units == 0


def test_each_update_is_bounded_by_itself():
    clip = Clip(bound=1.0, norm="l1")
    values = [bound_update(Private(torch.tensor([x])), clip, like=torch.zeros(1)) for x in (10.0, 0.1)]
    assert [round(float(unwrap(value)), 4) for value in values] == [1.0, 0.1]


@pytest.mark.parametrize("bound", [0.0, -1.0, math.nan])
def test_a_senseless_bound_is_refused(bound):
    with pytest.raises(SordinoError, match="clip norm must be a positive number"):
        Clip(bound=bound, norm="l2")


@pytest.mark.parametrize("shape", [(), (1,), (1, 100), (99,)])
def test_an_update_that_would_be_stretched_over_all_coordinates_is_refused(shape):
    """One number of norm 1 on each of 100 coordinates has norm 10."""
    with pytest.raises(SordinoError, match=r"must have shape \(100,\)"):
        summed([Private(torch.ones(shape))], Clip(bound=1.0, norm="l2"), like=torch.zeros(100))


def test_a_bounded_sum_carries_no_graph_of_how_it_was_made():
    update = torch.ones(3, requires_grad=True) * 2
    assert not unwrap(summed([Private(update)], Clip(bound=1.0, norm="l2"), like=torch.zeros(3))).requires_grad


@pytest.mark.parametrize("norm", ["l2", "l1"])
def test_many_updates_are_bounded_to_the_same_bits_as_each_by_itself(norm):
    clip = Clip(bound=0.7, norm=norm)
    rows = [torch.randn(1000) * scale for scale in (1e-4, 1.0, 1e30)] + [torch.full((1000,), torch.nan)]
    together = bound_updates([Private(row) for row in rows], clip, like=rows[0])
    apart = [bound_update(Private(row), clip, like=row) for row in rows]
    assert [one.zeroed for one in together] == [one.zeroed for one in apart] == [0, 0, 0, 1]
    assert all(torch.equal(unwrap(left), unwrap(right)) for left, right in zip(together, apart, strict=True))
    sums = [unwrap(sum_bounded(values, clip, like=rows[0])) for values in (together, apart)]
    assert torch.equal(*sums)


def test_an_update_is_left_as_it_came():
    row = torch.ones(9)
    before = row.clone()
    for bounded in (
        bound_update(Private(row), Clip(bound=1.0, norm="l2"), like=row),
        *bound_updates([Private(row)], Clip(bound=1.0, norm="l2"), like=row),
    ):
        assert float(unwrap(bounded).norm()) <= 1.0
        assert torch.equal(row, before)


def test_an_update_of_coarser_numbers_than_the_model_is_refused():
    with pytest.raises(SordinoError, match="at least 32 bits"):
        bound_update(Private(torch.ones(3).half()), Clip(bound=1.0, norm="l2"), like=torch.zeros(3))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int64])
def test_numbers_too_coarse_for_the_clips_rounding_are_refused(dtype):
    with pytest.raises(SordinoError, match="at least 32 bits"):
        summed([Private(torch.ones(3))], Clip(bound=1.0, norm="l2"), like=torch.zeros(3, dtype=dtype))
