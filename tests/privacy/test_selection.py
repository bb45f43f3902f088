"""The price of releasing the best of a random number of runs, against toys whose leakage is known exactly."""

import itertools
import math

import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.rdp import RdpAccountant

from sordino.core import SordinoError
from sordino.privacy import event_kinds as dp
from sordino.privacy.accounting import rdp_curve, rdp_epsilon, spent
from sordino.privacy.selection import TruncatedNegativeBinomial, stopping

NAMES = ["logarithmic", "geometric", "poisson"]
ORDERS = np.concatenate([np.linspace(1.1, 10, 90), np.arange(11, 64), [128, 512, 4096, 1e6]])


def divergence(p, q, orders):
    """The Rényi divergence of two distributions over the same few outcomes."""
    terms = np.log(p)[:, None] * orders + np.log(q)[:, None] * (1 - orders)
    return np.logaddexp.reduce(terms, axis=0) / (orders - 1)


def best_of(outcomes, rule):
    """The distribution of the best outcome, listed from worst to best, by adding up over the number of runs."""
    at_most = np.minimum(np.cumsum(outcomes), 1)
    numbers = np.array(list(itertools.islice(rule.chances(), 4000)))
    kept = (numbers[:, None] * at_most ** np.arange(4000)[:, None]).sum(axis=0)
    found = np.diff(np.concatenate([[numbers[0]], kept]))
    return np.concatenate([[numbers[0]], found]) if numbers[0] else found


def hockey_stick(p, q, epsilon):
    return np.maximum(p - math.exp(epsilon) * q, 0).sum()


def randomised_response(epsilon):
    truth = math.exp(epsilon) / (1 + math.exp(epsilon))
    return np.array([1 - truth, truth]), np.array([truth, 1 - truth])


def settings_and_answer(epsilon):
    """Two settings, drawn with equal chances; only one of them looks at the data, and it has the better and the worse score."""
    worse, better = randomised_response(epsilon)[0]
    first = np.array([worse / 2, 0.5, better / 2])
    return first, first[::-1].copy()


@pytest.mark.parametrize("toy", [randomised_response, settings_and_answer])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("mean", [1.5, 5.0, 40.0])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_the_bound_holds_where_the_leakage_is_known(toy, name, mean, epsilon):
    rule = stopping(name, mean)
    one, other = toy(epsilon)
    one_run = np.maximum(divergence(one, other, ORDERS), divergence(other, one, ORDERS))
    bound = rule.rdp(ORDERS, one_run)
    for first, second in ((one, other), (other, one)):
        exact = divergence(best_of(first, rule), best_of(second, rule), ORDERS)
        assert (exact <= bound * (1 + 1e-9)).all()
        for delta in (1e-2, 1e-5):
            claimed = rdp_epsilon(ORDERS, bound, delta=delta)
            assert hockey_stick(best_of(first, rule), best_of(second, rule), claimed) <= delta


@pytest.mark.parametrize("name", NAMES)
def test_selecting_does_cost_something(name):
    """The toy also shows that no selection may be sold at the price of one run."""
    rule = stopping(name, 5.0)
    one, other = randomised_response(1.0)
    exact = divergence(best_of(other, rule), best_of(one, rule), ORDERS)
    assert (exact[ORDERS > 20] > 1.0).all()


@pytest.mark.parametrize(("name", "shape"), [("logarithmic", 0.0), ("geometric", 1.0), ("poisson", math.inf)])
def test_a_peer_finds_the_same(name, shape):
    event = dp_event.GaussianDpEvent(2.0)
    peer = RdpAccountant().compose(dp_event.RepeatAndSelectDpEvent(event, 10.0, shape)).get_epsilon(1e-5)
    orders, one_run = rdp_curve({dp.GaussianDpEvent(2.0): 1}, neighbours="zero-out")
    assert rdp_epsilon(orders, stopping(name, 10.0).rdp(orders, one_run), delta=1e-5) == pytest.approx(peer, rel=1e-3)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("mean", [1.5, 10.0, 80.0])
def test_draws_have_the_mean_that_was_asked_for(name, mean):
    rule = stopping(name, mean)
    chances = np.array(list(itertools.islice(rule.chances(), 20_000)))
    assert chances.sum() == pytest.approx(1.0)
    assert (chances * np.arange(20_000)).sum() == pytest.approx(mean, rel=1e-4)
    points = (np.arange(400) + 0.5) / 400
    drawn = np.array([rule.draw(point) for point in points])
    assert abs((drawn <= 1).mean() - chances[:2].sum()) <= 1 / 400
    assert (np.diff(drawn) >= 0).all()


def test_a_general_shape_lies_between_its_neighbours():
    orders, one_run = rdp_curve({dp.GaussianDpEvent(2.0): 1}, neighbours="zero-out")
    prices = [
        rdp_epsilon(orders, TruncatedNegativeBinomial(mean=10.0, eta=eta).rdp(orders, one_run), delta=1e-5)
        for eta in (-0.5, 0.0, 0.5, 1.0)
    ]
    assert prices == sorted(prices)
    assert prices[0] > rdp_epsilon(orders, one_run, delta=1e-5)


def test_a_curve_is_what_the_accountant_uses_and_infinite_without_noise():
    events = {dp.PoissonSampledDpEvent(0.1, dp.GaussianDpEvent(1.1)): 50}
    told = spent(events, delta=1e-5, neighbours="zero-out", both=True).also["rdp"]
    assert rdp_epsilon(*rdp_curve(events, neighbours="zero-out"), delta=1e-5) == told
    assert rdp_epsilon(*rdp_curve({dp.NonPrivateDpEvent(): 1}, neighbours="zero-out"), delta=1e-5) == math.inf


@pytest.mark.parametrize(("name", "mean"), [("geometric", 1.0), ("poisson", 0.5), ("uniform", 10.0)])
def test_what_has_no_price_is_refused(name, mean):
    with pytest.raises(SordinoError, match="but got"):
        stopping(name, mean)
