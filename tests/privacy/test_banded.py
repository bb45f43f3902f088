"""The banded mechanism: how many bands it takes, what it costs, what a plan says of it, and what it refuses."""

import re

import pytest

from sordino.core import SordinoError
from sordino.engine.plan import make_plan
from sordino.experiment import experiment
from sordino.privacy.banded_matrix import BandedMatrix, square_root
from sordino.privacy.banded_optimum import least_error


@pytest.fixture
def plan(tiny):
    def planned(mechanism="banded", *, method=None, rounds=6, clients=12, **privacy):
        changes = {"mechanism": mechanism, "participation_cap": 2, "expected_cohort": 3, **privacy}
        data = {"clients": clients, "partition": {"name": "iid"}}
        table = tiny(rounds=rounds, data=data, **({"method": method} if method else {}))
        table["privacy"] = {k: v for k, v in {**table["privacy"], **changes}.items() if v is not None}
        return make_plan(experiment(table))

    return planned


def test_it_takes_as_many_bands_as_turns_allow(plan):
    mechanism = plan().tariff.mechanism
    assert mechanism.matrix == BandedMatrix(coefficients=least_error(3, 6), rounds=6)


def test_bands_and_coefficients_can_be_set(plan):
    mechanism = plan({"name": "banded", "bands": 2, "coefficients": "square-root"}).tariff.mechanism
    assert mechanism.matrix == BandedMatrix(coefficients=square_root(2), rounds=6)


@pytest.mark.parametrize("sampler", ["poisson", "fixed-size", "everyone"])
def test_it_costs_what_independent_noise_costs_under_the_same_turns(plan, sampler):
    banded, independent = (plan(name, sampler=sampler).tariff for name in ("banded", "gaussian"))
    for client in range(12):
        for view in ("public", "client"):
            assert banded.bill(client, view) == independent.bill(client, view)


def test_its_noise_is_worked_out_for_the_target(plan):
    found = plan(epsilon=3.0, noise_multiplier=None)
    same = plan("gaussian", epsilon=3.0, noise_multiplier=None)
    assert found.tariff.noise_multiplier == same.tariff.noise_multiplier
    assert 2.99 < found.epsilon["public"].epsilon <= 3.0


def test_a_plan_says_how_many_bands_there_are_and_what_they_gain(plan):
    said = plan().method_facts["correlated noise"]
    gain = BandedMatrix(coefficients=least_error(3, 6), rounds=6).gain()
    assert "3 bands (least-error) under turns 3 rounds apart" in said
    assert f"stray {gain:.2f} times less" in said


def test_it_says_how_much_earlier_noise_it_keeps(plan):
    assert [plan(name).tariff.mechanism.kept_vectors for name in ("banded", "gaussian")] == [2, 0]


def test_a_plan_weighs_what_turns_gain_against_what_they_cost(plan):
    """z · error of sums / cohort, each at the target ε: for this cap, for others, and for independent noise without turns."""
    target = {"epsilon": 3.0, "noise_multiplier": None}
    said = plan(**target).method_facts["turns"]
    for cap, own in ((2, " (this plan)"), (3, "")):
        tariff = plan(**target, participation_cap=cap).tariff
        error = tariff.noise_multiplier * tariff.mechanism.matrix.prefix_error() / 3
        assert f"{cap}: {error:.3g}, 3 clients a round{own}" in said
    independent = plan("gaussian", **target, participation_cap=None).tariff.noise_multiplier * 3.5**0.5 / 3
    assert f"none, with independent noise: {independent:.3g}, 3 clients a round" in said
    assert said.endswith("least at 3")


def test_only_a_plan_for_a_target_weighs_turns(plan):
    assert "turns" not in plan().method_facts
    assert "turns" not in plan("gaussian", epsilon=3.0, noise_multiplier=None).method_facts


def test_bands_are_no_more_than_a_hundred_unless_asked_for(plan):
    many = {"rounds": 300, "participation_cap": 1, "expected_cohort": None, "sampler": "everyone", "clients": 300}
    assert plan(**many).tariff.mechanism.bands == 100
    assert plan({"name": "banded", "bands": 150}, **many).tariff.mechanism.bands == 150


REFUSED = {
    "no turns": ({"participation_cap": None}, "needs clients that take turns.*set [privacy] participation_cap"),
    "wide bands": (
        {"mechanism": {"name": "banded", "bands": 4}},
        "asks for 4 bands, but a client's turn comes every 3 rounds.*lower bands to 3",
    ),
    "local noise": ({"noise": "local"}, "got [privacy] noise = 'local'.*set noise = 'central'"),
    "shares": ({"noise": "distributed"}, "got [privacy] noise = 'distributed'.*set noise = 'central'"),
    "steps": ({"method": {"name": "dp-sgd", "batch_size": 8}}, "in every step on examples.*choose method 'dp-fedavg'"),
    "millions of rounds": (
        {"rounds": 10**6, "participation_cap": 10**5, "expected_cohort": 1},
        "up to 10,000 rounds and 1,000 bands",
    ),
    "no bands": ({"mechanism": {"name": "banded", "bands": 0}}, "bands"),
    "some text": ({"mechanism": {"name": "banded", "bands": "many"}}, "bands"),
    "other coefficients": ({"mechanism": {"name": "banded", "coefficients": "ones"}}, "coefficients"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_it_cannot_do_is_refused_in_one_sentence(plan, name):
    changes, sentence = REFUSED[name]
    pattern = ".*".join(re.escape(part) for part in sentence.split(".*"))
    with pytest.raises(SordinoError, match=pattern) as refused:
        plan(**changes)
    assert "\n" not in str(refused.value)


def test_one_band_needs_no_turns(plan):
    assert plan({"name": "banded", "bands": 1}, participation_cap=None).tariff.mechanism.matrix.bands == 1
