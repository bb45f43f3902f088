"""Variants of DP-FedAvg: a proximal term in clients, momentum and Adam at the server; each is DP-FedAvg when switched off."""

import pytest
import torch
from safetensors.torch import load_file

import sordino
from sordino.engine.record import RunRecord
from sordino.engine.run import run_experiment
from sordino.experiment import experiment
from sordino.methods.dp_fedadam import DpFedAdam
from sordino.methods.dp_fedavgm import DpFedAvgM
from sordino.methods.dp_fedprox import DpFedProx
from sordino.privacy.ledger import read_lines
from sordino.testing import contract_table
from sordino.testing.rounds import play

OFF = {
    "dp-fedprox": {"mu": 0},
    "dp-fedavgm": {"server_momentum": 0},
    "dp-fedadam": {"server_learning_rate": 0.7, "beta1": 0, "beta2": 1, "tau": 1},
}
SERVER = {"server_learning_rate": 0.7}


def outcome(table, folder):
    sordino.run(table, out=folder)
    return (folder / "model.safetensors").read_bytes(), read_lines(folder / "ledger.jsonl")


@pytest.mark.parametrize("schedule", ["workers", "stacked"])
@pytest.mark.parametrize("name", OFF)
def test_switched_off_it_is_dp_fedavg_bit_for_bit(name, schedule, tiny, tmp_path):
    settings = {"epochs": 2, "batch_size": 8, "momentum": 0.5, **SERVER}
    plain = tiny(method={"name": "dp-fedavg", **settings}, engine={"schedule": schedule})
    off = tiny(method={"name": name, **settings, **OFF[name]}, engine={"schedule": schedule})
    assert outcome(off, tmp_path / "off") == outcome(plain, tmp_path / "plain")


@pytest.mark.parametrize("name", OFF)
def test_its_noise_and_price_are_those_of_dp_fedavg(name, tiny):
    budget = {"noise_multiplier": None, "epsilon": 4.0}
    plans = [sordino.plan(tiny(method={"name": one}, privacy=budget)).to_json() for one in (name, "dp-fedavg")]
    assert plans[0]["noise_multiplier"] == plans[1]["noise_multiplier"]
    assert plans[0]["epsilon"] == plans[1]["epsilon"]


def test_the_pull_is_that_of_the_proximal_term():
    """With one full-batch step there is nothing to be pulled back from; with two, the second is pulled by μ times the first."""

    def update(epochs, **method):
        table = contract_table({"epochs": epochs, "batch_size": 1000, "learning_rate": 0.1, **method}, privacy=LOOSE)
        return play(table).seen.uploads[0][0].value

    one = update(1, name="dp-fedavg")
    assert torch.equal(update(1, name="dp-fedprox", mu=0.8), one)
    plain, pulled = update(2, name="dp-fedavg"), update(2, name="dp-fedprox", mu=0.8)
    assert torch.allclose(pulled, plain - 0.1 * 0.8 * one, atol=1e-6)


LOOSE = {"noise": "local", "noise_multiplier": 1.0, "clip_norm": 100.0, "sampler": "everyone"}


def test_a_strong_pull_keeps_clients_where_they_were():
    near, far = (
        float(
            play(contract_table({"name": "dp-fedprox", "mu": mu, "epochs": 5}, privacy=LOOSE))
            .seen.uploads[1][0]
            .value.norm()
        )
        for mu in (5.0, 0.0)
    )
    assert near < 0.6 * far


def test_momentum_is_the_heavy_ball_over_noisy_sums():
    sums = [torch.tensor([1.0, -2.0]), torch.tensor([0.5, 0.5]), torch.tensor([0.0, 3.0])]
    method, state = DpFedAvgM(server_momentum=0.5, server_learning_rate=0.8), {"model": torch.zeros(2)}
    model, velocity = torch.zeros(2), torch.zeros(2)
    for total in sums:
        state = method.server_step(state, total, 4.0)
        velocity = 0.5 * velocity + total
        model = model + 0.8 * velocity / 4
    assert torch.allclose(state["model"], model)
    assert torch.equal(state["velocity"], velocity)


def test_adam_is_that_of_the_paper():
    sums = [torch.tensor([1.0, -20.0]), torch.tensor([0.5, 5.0]), torch.tensor([-0.3, 3.0])]
    method, state = DpFedAdam(server_learning_rate=0.1, beta1=0.8, beta2=0.9, tau=0.01), {"model": torch.zeros(2)}
    model, first, second = torch.zeros(2), torch.zeros(2), torch.zeros(2)
    for total in sums:
        state = method.server_step(state, total, 4.0)
        mean = total / 4
        first, second = 0.8 * first + 0.2 * mean, 0.9 * second + 0.1 * mean**2
        model = model + 0.1 * first / (second.sqrt() + 0.01)
    assert torch.allclose(state["model"], model, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "kept"), [("dp-fedavgm", {"velocity"}), ("dp-fedadam", {"first_moment", "second_moment"})]
)
def test_what_the_server_keeps_survives_an_interruption(name, kept, tiny, tmp_path):
    def interrupt(moment):
        if moment.stage == "training" and moment.done == 2:
            raise KeyboardInterrupt

    table = tiny(method={"name": name})
    with pytest.raises(KeyboardInterrupt):
        run_experiment(experiment(table), tmp_path / "broken", watch=interrupt)
    assert kept <= RunRecord(tmp_path / "broken").load_checkpoint().state.keys()
    sordino.run(table, out=tmp_path / "broken", resume=True)
    sordino.run(table, out=tmp_path / "whole")
    broken, whole = (load_file(tmp_path / run / "model.safetensors") for run in ("broken", "whole"))
    assert all(torch.equal(broken[key], whole[key]) for key in whole)


def test_the_pull_is_no_plain_sgd_unless_it_is_off():
    assert DpFedProx(mu=0.1).stacked() is None
    assert DpFedProx(mu=0.0, epochs=3).stacked().epochs == 3
