"""Every cell of the pricing table, by hand."""

import math

import pytest

from sordino.core import SordinoError
from sordino.privacy.event_kinds import (
    GaussianDpEvent,
    LaplaceDpEvent,
    NonPrivateDpEvent,
    PoissonSampledDpEvent,
    SelfComposedDpEvent,
)
from sordino.privacy.mechanisms import Gaussian, Laplace
from sordino.privacy.pricing import price_local_steps, price_unprotected, price_upload
from sordino.privacy.samplers import FixedSize, Poisson

FIXED = FixedSize(clients=100, rounds=10, expected_cohort=16)
POISSON = Poisson(clients=100, rounds=10, expected_cohort=16, bounded=True)


def price(placement, uses="sum", mechanism=None, sampler=FIXED, z=2.0, colluders=1):
    return price_upload(
        placement=placement,
        uses=uses,
        mechanism=mechanism or Gaussian(),
        noise_multiplier=z,
        sampler=sampler,
        colluders=colluders,
    )


def inner(charge):
    return charge.event.event.noise_multiplier


def test_central_noise_protects_everyone_but_the_server():
    central = price("central", sampler=POISSON)
    assert central.in_view("public").event == PoissonSampledDpEvent(0.16, GaussianDpEvent(2.0))
    assert central.in_view("client").event == central.in_view("public").event
    assert central.in_view("server").event == NonPrivateDpEvent()


def test_distributed_shares_add_up_to_the_whole():
    shares = price("distributed")
    assert shares.noise_multiplier == pytest.approx(2.0 / 4)
    assert inner(shares.in_view("public")) == pytest.approx(2.0)
    assert shares.in_view("server").event == GaussianDpEvent(0.5)
    assert inner(shares.in_view("client")) == pytest.approx(2.0 * math.sqrt(15 / 16))


def test_local_noise_gives_the_sum_more_than_each_upload():
    local = price("local")
    assert local.noise_multiplier == 2.0
    assert inner(local.in_view("public")) == pytest.approx(8.0)
    assert local.in_view("server").event == GaussianDpEvent(2.0)
    assert inner(local.in_view("client")) == pytest.approx(2.0 * math.sqrt(15))


def test_colluders_take_their_shares_away():
    assert inner(price("distributed", colluders=7).in_view("client")) == pytest.approx(2.0 * math.sqrt(9 / 16))
    assert price("local", colluders=16).in_view("client").event.event == NonPrivateDpEvent()


@pytest.mark.parametrize(("placement", "each"), [("distributed", 0.5), ("local", 2.0)])
def test_using_uploads_one_by_one_forfeits_the_root_and_the_sampling(placement, each):
    charges = price(placement, uses="each").charges
    assert {charge.view for charge in charges} == {"public", "server", "client"}
    assert all(charge.event == GaussianDpEvent(each) and charge.whom == "participants" for charge in charges)


def test_one_by_one_use_of_centrally_noised_uploads_is_refused():
    with pytest.raises(SordinoError, match="one by one"):
        price("central", uses="each")


def test_laplace_has_no_shares_and_no_sum():
    with pytest.raises(SordinoError, match="Shares of Laplace"):
        price("distributed", mechanism=Laplace())
    assert price("local", mechanism=Laplace()).in_view("public").event == LaplaceDpEvent(2.0)


def test_local_steps_cost_every_onlooker_the_same():
    steps = price_local_steps(mechanism=Gaussian(), noise_multiplier=1.1, rate=0.1, steps=5)
    expected = SelfComposedDpEvent(PoissonSampledDpEvent(0.1, GaussianDpEvent(1.1)), 5)
    assert all(charge.event == expected for charge in steps.charges)


def test_data_in_one_place_are_bare_to_the_server():
    steps = price_local_steps(mechanism=Gaussian(), noise_multiplier=1.1, rate=0.1, steps=5, server_holds_data=True)
    assert steps.in_view("server").event == NonPrivateDpEvent()
    assert steps.in_view("public").event != NonPrivateDpEvent()


def test_no_privacy_costs_everything():
    assert all(charge.event == NonPrivateDpEvent() for charge in price_unprotected().charges)
