"""The door charges first, draws the noise that was charged for, and no more often than paid for."""

import numpy as np
import pytest
import torch
from scipy import stats

from sordino.core import Private, SordinoError, seal
from sordino.privacy.clipping import Clip, bound_update, sum_bounded
from sordino.privacy.door import Door
from sordino.privacy.ledger import Budget, Ledger, Line, OverBudget
from sordino.privacy.mechanisms import MECHANISMS, Draw, Gaussian
from sordino.privacy.noise import SecureNoise, SeededNoise
from sordino.privacy.pricing import price_upload
from sordino.privacy.samplers import Everyone

DRAWS = 200_000
LEVEL = 1e-6
"""Chance of a false alarm for each two-sided test; 5 % off in scale is caught with near certainty at this many draws."""


def line(mechanism="gaussian", z=1.5, bound=2.0, releases=1, seats=4, placement="local", uses="each"):
    sampler = Everyone(clients=seats, rounds=1, expected_cohort=seats)
    kind = MECHANISMS[mechanism]()
    price = price_upload(placement=placement, uses=uses, mechanism=kind, noise_multiplier=z, sampler=sampler)
    return Line(
        round=0,
        label="update",
        unit="client",
        owner="each client",
        mechanism=mechanism,
        norm=kind.norm,
        clip_bound=bound,
        noise_multiplier=price.noise_multiplier,
        releases=releases,
        participants=tuple(range(seats)),
        charges=price.charges,
    )


def door(source=None, budget=None):
    return Door(Ledger(clients=4, delta=1e-5, neighbours="zero-out", budget=budget), source or SeededNoise(3))


def zero(mechanism="gaussian", bound=2.0, size=DRAWS):
    return seal(torch.zeros(size, dtype=torch.float64), bound=bound, norm=MECHANISMS[mechanism]().norm, units=0)


@pytest.mark.parametrize("source", [SeededNoise(3), SecureNoise()], ids=["seeded", "secure"])
@pytest.mark.parametrize(("mechanism", "law"), [("gaussian", stats.norm), ("laplace", stats.laplace)])
def test_noise_has_the_charged_scale_neither_less_nor_more(mechanism, law, source):
    noise = door(source).open(line(mechanism)).release(zero(mechanism)).value.numpy()
    pvalue = lambda scale: stats.kstest(noise / scale, law.cdf).pvalue  # noqa: E731
    assert pvalue(3.0) > LEVEL
    assert pvalue(3.0 * 0.95) < LEVEL
    assert pvalue(3.0 * 1.05) < LEVEL


def test_shares_and_filled_seats_add_up_to_the_same_total_whoever_came():
    for arrived in (0, 1, 3, 4):
        permit = door().open(line(placement="distributed", uses="sum", releases=arrived))
        total = permit.fill_seats(4 - arrived, torch.zeros(DRAWS, dtype=torch.float64)).value
        for _ in range(arrived):
            total = total + permit.release(zero()).value
        assert stats.kstest(total.numpy() / 3.0, stats.norm.cdf).pvalue > LEVEL


def test_no_noise_is_drawn_twice():
    permit = door().open(line(releases=3, seats=4))
    drawn = [permit.release(zero()).value.numpy() for _ in range(3)] + [
        permit.fill_seats(1, torch.zeros(DRAWS, dtype=torch.float64)).value.numpy()
    ]
    correlations = np.corrcoef(drawn) - np.eye(4)
    assert np.abs(correlations).max() < 6 / np.sqrt(DRAWS)


def test_the_charge_comes_before_the_noise():
    class Watched(SeededNoise):
        def gaussian(self, *args, **kwargs):
            assert len(book.lines) == 1, "noise was drawn before the ledger was charged"
            return super().gaussian(*args, **kwargs)

    gate = door(Watched(1))
    book = gate.ledger
    gate.open(line()).release(zero())


def test_over_budget_nothing_is_drawn():
    class Forbidden(SeededNoise):
        def gaussian(self, *args, **kwargs):
            pytest.fail("noise was drawn for a refused release")

    with pytest.raises(OverBudget):
        door(Forbidden(1), Budget(view="server", epsilon=0.01)).open(line())


def test_one_release_too_many_is_refused():
    permit = door().open(line(releases=1))
    permit.release(zero())
    with pytest.raises(SordinoError, match="one more"):
        permit.release(zero())


@pytest.mark.parametrize("value", [zero(bound=2.1), seal(torch.zeros(1), bound=2.0, norm="l1", units=1)])
def test_a_value_bounded_otherwise_than_charged_is_refused(value):
    with pytest.raises(SordinoError, match="clip it to what was charged"):
        door().open(line()).release(value)


def test_seeded_noise_repeats_and_secure_noise_does_not():
    def released(source):
        return door(source).open(line()).release(zero(size=8)).value.tolist()

    assert released(SeededNoise(5)) == released(SeededNoise(5)) != released(SeededNoise(6))
    assert released(SecureNoise()) != released(SecureNoise())


def test_the_noise_does_not_depend_on_what_is_inside():
    def noise(rows):
        clip, like = Clip(bound=2.0, norm="l2"), torch.zeros(2)
        each = [bound_update(Private(torch.tensor(row)), clip, like=like) for row in rows]
        bounded = sum_bounded(each, clip, like=like)
        return door().open(line()).release(bounded).value - sum(torch.tensor(row) for row in rows)

    torch.testing.assert_close(noise([[0.5, 0.5]]), noise([[1.0, 0.25], [0.25, 1.0]]))


def test_gaussian_noise_follows_the_dtype_and_shape_of_the_value():
    noise = Gaussian().draw(SeededNoise(1), torch.zeros(2, 3), Draw(scale=1.0, stream=1))
    assert noise.shape == (2, 3)
    assert noise.dtype == torch.float32
