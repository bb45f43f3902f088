"""What mechanisms beyond one plain sum cost: joint releases from one batch, and rounds that differ."""

import math
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sordino.core import SordinoError
from sordino.engine.plan import make_plan
from sordino.engine.pricing import make_tariff
from sordino.engine.resolved import resolve
from sordino.experiment import experiment
from sordino.privacy.accounting import spent
from sordino.privacy.adaptive_clip import COUNT, AdaptiveClip
from sordino.privacy.event_kinds import GaussianDpEvent, PoissonSampledDpEvent
from sordino.privacy.gep import RESIDUAL

GEP = {"name": "gep", "public": {"source": "mnist5k", "visibility": "public"}}


def run_of(mechanism, *, rounds=4, method=None, clients=10, **privacy):
    shared = {"noise_multiplier": 1.1, "mechanism": mechanism, "expected_cohort": 4.0, "clip_norm": 2.0}
    return experiment(
        {
            "rounds": rounds,
            "data": {"source": "digits", "clients": clients},
            "model": {"name": "logistic"},
            "method": method or {"name": "dp-sgd", "where": "one-place", "batch_size": 768},
            "privacy": {k: v for k, v in {**shared, **privacy}.items() if v is not None},
        }
    )


def tariff_of(table, *, clients=1, sizes=(50_000,)):
    return make_tariff(resolve(table), clients=clients, sizes=list(sizes))


def test_two_releases_from_one_batch_are_one_sampled_joint_event():
    """The known value: q = 768/50000, z = 1.1, 100 steps, δ = 1e-5 gives 2.31 for two releases, 0.862 for one."""
    tariff = tariff_of(run_of(GEP, rounds=100))
    price = tariff.price(0, 0)
    inner = GaussianDpEvent(pytest.approx(1.1 / math.sqrt(2)))
    assert price.in_view("public").event == PoissonSampledDpEvent(768 / 50_000, inner)
    assert spent(tariff.bill(0, "public"), delta=1e-5, neighbours="zero-out", precise=True).epsilon == pytest.approx(
        2.31, abs=0.01
    )
    assert price.noise_multiplier == pytest.approx(1.1)
    assert [(part.name, part.clip_bound) for part in price.others] == [(RESIDUAL, pytest.approx(0.8))]
    assert price.others[0].noise_multiplier == pytest.approx(1.1)
    assert "count as one of 0.7778" in price.in_view("public").because


def test_the_quantiles_count_is_charged_with_the_gradient():
    tariff = tariff_of(run_of("adaptive-clip"))
    price = tariff.price(0, 0)
    joint = (1.1**-2 + 76.8**-2) ** -0.5
    assert price.in_view("public").event.event.noise_multiplier == pytest.approx(joint)
    assert price.noise_multiplier == pytest.approx(1.1)
    assert [(part.name, part.clip_bound, part.noise_multiplier) for part in price.others] == [
        (COUNT, 1.0, pytest.approx(76.8))
    ]


@pytest.mark.parametrize("noise", ["central", "distributed", "local"])
def test_shares_of_a_joint_release_keep_its_proportions(noise):
    table = run_of(
        {"name": "adaptive-clip", "count_noise": 3.0}, method={"name": "dp-fedavg"}, noise=noise, sampler="fixed-size"
    )
    price = tariff_of(table, clients=10).price(0, 0)
    share = 0.5 if noise == "distributed" else 1.0
    assert price.noise_multiplier == pytest.approx(1.1 * share)
    assert price.others[0].noise_multiplier == pytest.approx(3.0 * share)
    total = (1.1**-2 + 3.0**-2) ** -0.5 * (2.0 if noise == "local" else 1.0)
    assert price.in_view("public").event.event.noise_multiplier == pytest.approx(total)


def test_a_clip_that_moves_in_every_third_round_pays_for_counts_there_alone():
    tariff = tariff_of(run_of({"name": "adaptive-clip", "every": 3}, rounds=7))
    counted = [bool(tariff.price(0, number).others) for number in range(7)]
    assert counted == [True, False, False, True, False, False, True]
    assert sorted(tariff.bill(0, "public").values()) == [3, 4]


def test_a_schedule_is_billed_round_by_round():
    tariff = tariff_of(run_of({"name": "noise-schedule", "decay": 0.5, "every": 2}, rounds=5))
    drawn = [tariff.price(0, number).noise_multiplier for number in range(5)]
    assert drawn == pytest.approx([1.1 * math.exp(-0.5 * t) for t in (0, 0, 1, 1, 2)])
    expected = Counter(round(z, 9) for z in drawn)
    found = Counter()
    for event, times in tariff.bill(0, "public").items():
        found[round(event.event.noise_multiplier, 9)] += times
    assert found == expected


def test_pools_under_a_cap_are_billed_for_their_own_rounds_of_a_schedule():
    table = run_of(
        {"name": "noise-schedule", "decay": 1.0},
        method={"name": "dp-fedavg"},
        rounds=4,
        participation_cap=2,
        sampler="everyone",
    )
    tariff = tariff_of(table, clients=10)
    first, second = (tariff.bill(client, "public") for client in (0, 1))
    assert sorted(event.noise_multiplier for event in first) == pytest.approx([1.1 * math.exp(-2), 1.1])
    assert sorted(event.noise_multiplier for event in second) == pytest.approx([1.1 * math.exp(-3), 1.1 * math.exp(-1)])
    assert len(tariff.worst_bills("public")) == 2


@settings(deadline=None, max_examples=12)
@given(
    decay=st.floats(0, 3),
    rounds=st.integers(1, 6),
    epsilon=st.floats(0.3, 8),
    every=st.integers(1, 3),
    sampled=st.booleans(),
)
def test_a_schedule_meets_its_target_for_any_decay(decay, rounds, epsilon, every, sampled):
    table = run_of(
        {"name": "noise-schedule", "decay": decay, "every": every},
        rounds=rounds,
        method={"name": "dp-fedavg"},
        noise_multiplier=None,
        epsilon=epsilon,
        sampler="poisson" if sampled else "everyone",
    )
    tariff = tariff_of(table, clients=10)
    reached = spent(tariff.bill(0, "public"), delta=1e-5, neighbours="zero-out", precise=True).epsilon
    assert 0.98 * epsilon <= reached <= epsilon


@pytest.mark.parametrize("mechanism", ["adaptive-clip", {"name": "noise-schedule", "decay": 0.2}, GEP])
def test_the_plan_meets_its_target_with_everything_charged(mechanism):
    plan = make_plan(run_of(mechanism, noise_multiplier=None, epsilon=3.0, rounds=5))
    assert 2.9 <= plan.epsilon["public"].epsilon <= 3.0
    assert plan.to_json()["mechanism"] in ("adaptive-clip", "noise-schedule", "gep")


def test_a_plan_tells_how_noise_changes_over_the_rounds():
    falling = make_plan(run_of({"name": "noise-schedule", "decay": 0.2}, rounds=3)).method_facts
    assert falling["noise over rounds"] == "each release 1.1 at first, 0.7374 at last"
    assert "noise over rounds" not in make_plan(run_of("gaussian", rounds=3)).method_facts


def test_the_next_clip_moves_against_the_excess():
    clip = AdaptiveClip(quantile=0.5, clip_learning_rate=0.2)
    assert clip.next_bound(1.0, {COUNT: 100.0}, 100.0) == pytest.approx(math.exp(-0.1))
    assert clip.next_bound(1.0, {COUNT: 0.0}, 100.0) == pytest.approx(math.exp(0.1))
    assert clip.next_bound(1.0, {COUNT: 50.0}, 100.0) == 1.0
    assert clip.next_bound(1.0, {}, 100.0) == 1.0


@pytest.mark.parametrize(
    ("mechanism", "method", "sentence"),
    [
        ("gep", None, "needs public examples to span its subspace"),
        ({**GEP, "basis": 200}, None, "at most as many dimensions"),
        (GEP, {"name": "dp-fedavg"}, "is for example-level methods"),
        ({"name": "adaptive-clip", "quantile": 1.5}, None, "quantile should be less than or equal to 1"),
        ({"name": "adaptive-clip", "count_noise": 0}, None, "count_noise should be greater than or equal to 1e-12"),
        ({"name": "noise-schedule", "decay": -0.1}, None, "decay should be greater than or equal to 0"),
        ({"name": "noise-schedule", "decoy": 1}, None, "did you mean 'decay'"),
        ({"quantile": 0.5}, None, r"\[privacy.mechanism\] needs a name"),
        ("adaptive-clips", None, "did you mean 'adaptive-clip'"),
    ],
)
def test_bad_settings_get_one_sentence(mechanism, method, sentence):
    with pytest.raises(SordinoError, match=sentence):
        tariff_of(run_of(mechanism, method=method), clients=10 if method else 1)
