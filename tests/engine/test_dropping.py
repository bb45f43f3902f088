"""Clients that drop out of a simulation: who is missing, what it costs, and that it is the same again."""

import pytest

from sordino.core import SordinoError
from sordino.engine.plan import make_plan
from sordino.engine.run import run_experiment
from sordino.engine.simulate.dropping import Dropping
from sordino.experiment import ClientsSection, experiment


def test_missing_answers_change_the_model_and_not_the_price(tiny, tmp_path):
    whole = run_experiment(experiment(tiny(rounds=3)), tmp_path / "whole")
    lossy = run_experiment(experiment(tiny(rounds=3, clients={"dropout": 0.4})), tmp_path / "lossy")
    assert not whole["missing"] and lossy["missing"]
    assert lossy["epsilon"]["public"]["epsilon"] == whole["epsilon"]["public"]["epsilon"]
    assert lossy["noise_multiplier"] == whole["noise_multiplier"]
    again = run_experiment(experiment(tiny(rounds=3, clients={"dropout": 0.4})), tmp_path / "again")
    assert again["accuracy"] == lossy["accuracy"] and again["missing"] == lossy["missing"]


def test_slow_clients_miss_every_second_round_and_others_their_share():
    dropping = Dropping(ClientsSection(dropout=0.1, slow=0.3), seed=4)
    chances = [dropping.chance(client) for client in range(2000)]
    assert set(chances) == {0.1, 0.5} and 500 < chances.count(0.5) < 700


def test_the_plan_says_what_is_lost_and_real_clients_are_not_dropped(tiny):
    facts = make_plan(experiment(tiny(clients={"dropout": 0.1, "slow": 0.2}))).method_facts
    assert facts["drop-outs"].startswith("about 18% of all answers are missing; ε stays")
    with pytest.raises(SordinoError, match=r"\[clients\] dropout .* but \[engine\] name is 'process'"):
        make_plan(experiment(tiny(clients={"dropout": 0.1}, engine={"name": "process"})))


def test_everyone_pays_the_same_where_that_is_asked_for(tiny):
    table = tiny(method={"name": "dp-sgd", "batch_size": 16, "learning_rate": 0.1})
    table["privacy"] = {"epsilon": 3.0, "delta": 1e-3, "view": "server"}
    unequal = make_plan(experiment(table))
    assert min(unequal.epsilon_per_client.values()) < 2.5
    assert any("client_epsilon = 'equal'" in warning for warning in unequal.warnings)
    table["privacy"]["client_epsilon"] = "equal"
    equal = make_plan(experiment(table))
    found = equal.epsilon_per_client or {0: equal.epsilon["server"].epsilon}
    assert 2.98 < min(found.values()) <= max(found.values()) <= 3.0
    assert not any("client_epsilon = 'equal'" in warning for warning in equal.warnings)
    with pytest.raises(SordinoError, match=r"client_epsilon = 'equal' shares out epsilon, but got none"):
        experiment({**table, "privacy": {"client_epsilon": "equal", "noise_multiplier": 1.0}})
