"""Canaries show in real rounds as they should, and rates are bounded as they should."""

import numpy as np
import pytest
from audited import CLIP, STEPS, run_of
from scipy import stats

from sordino.audit.canaries import client_canaries, example_canaries
from sordino.audit.sampling import audit_sampling
from sordino.core import SordinoError
from sordino.privacy.event_kinds import GaussianDpEvent, PoissonSampledDpEvent

NOISELESS = {"noise_multiplier": 0.0, "noise": "local"}


@pytest.mark.parametrize("view", ["public", "server"])
def test_without_noise_a_client_that_is_in_shows_with_exactly_the_clip_bound(view):
    seen = client_canaries(run_of(clients=20, rounds=3, **NOISELESS), view=view)
    each_round = CLIP / 20 if view == "public" else CLIP
    assert 0 < seen.included.sum() < 20
    np.testing.assert_allclose(seen.scores, 3 * each_round * seen.included, rtol=1e-5)
    assert np.isinf(seen.claimed_epsilon)


def test_without_noise_an_example_that_is_in_shows_with_exactly_the_clip_bound():
    method = {**STEPS, "batch_size": 1000, "local_steps": 3}
    seen = example_canaries(run_of(clients=3, method=method, noise_multiplier=0.0), canaries=50)
    assert 0 < seen.included.sum() < 50
    np.testing.assert_allclose(seen.scores, 3 * CLIP * 2**0.5 * seen.included, rtol=1e-5)


def test_what_has_no_finite_claim_or_no_canaries_is_refused():
    with pytest.raises(SordinoError, match="infinite"):
        client_canaries(run_of(clients=4), view="server")
    with pytest.raises(SordinoError, match="dp-fedavg"):
        client_canaries(run_of(clients=4, method=STEPS))
    with pytest.raises(SordinoError, match="dp-sgd"):
        example_canaries(run_of(clients=4), canaries=10)


def test_a_rate_that_is_wrong_for_one_unit_alone_is_seen():
    rng = np.random.default_rng(0)
    claimed = PoissonSampledDpEvent(0.1, GaussianDpEvent(1.0))
    rates = np.full(500, 0.1)
    fair = [np.flatnonzero(rng.random(500) < rates) for _ in range(100)]
    rates[7] = 0.6
    unfair = [np.flatnonzero(rng.random(500) < rates) for _ in range(100)]
    assert audit_sampling(fair, units=500, claimed=claimed, confidence=0.999).holds
    assert not audit_sampling(unfair, units=500, claimed=claimed, confidence=0.999).holds


def test_the_bound_on_a_rate_exceeds_the_truth_no_more_often_than_stated():
    rng, times, confidence = np.random.default_rng(1), 300, 0.8
    claimed = PoissonSampledDpEvent(0.2, GaussianDpEvent(1.0))
    alarms = sum(
        not audit_sampling(
            [np.flatnonzero(rng.random(10) < 0.2) for _ in range(20)], units=10, claimed=claimed, confidence=confidence
        ).holds
        for _ in range(times)
    )
    assert alarms <= stats.binom.isf(1e-6, times, 1 - confidence)


def test_an_event_without_a_draw_is_refused():
    with pytest.raises(SordinoError, match="draws nobody by lot"):
        audit_sampling([np.array([0])], units=1, claimed=GaussianDpEvent(1.0), confidence=0.95)
