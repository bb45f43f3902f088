"""The choice before training: charged, kept, shown, the same after a crash, and refused where it cannot be paid."""

import json

import pytest
import torch
from safetensors.torch import load_file

import sordino
from sordino.core import SordinoError
from sordino.engine.plan import make_plan
from sordino.engine.run import run_experiment
from sordino.experiment import experiment
from sordino.models import Net
from sordino.privacy.accounting import spent
from sordino.privacy.ledger import read_lines
from sordino.privacy.streams import stream_id

MECHANISMS = {
    "laplace": {"mechanism": "laplace", "delta": 0.0, "clip_norm": 20.0},
    "gaussian": {"mechanism": "gaussian", "delta": 1e-5, "clip_norm": 1.0},
}


@pytest.fixture
def auto(tiny):
    def table(mechanism="gaussian", epsilon=2.0, tuning=None, rounds=3, **privacy):
        return tiny(
            rounds=rounds,
            data={"clients": 3, "test": "public-split"},
            tuning={"name": "auto", "epsilon": 0.5, **(tuning or {})},
            method={"name": "dp-sgd", "batch_size": "full", "learning_rate": 0.2},
            privacy={
                "noise_multiplier": None,
                "expected_cohort": None,
                "epsilon": epsilon,
                "sampler": "everyone",
                "neighbours": "replace-one",
                **MECHANISMS[mechanism],
                **privacy,
            },
        )

    return table


@pytest.mark.parametrize(
    ("mechanism", "epsilon", "strategy"),
    [("laplace", 0.6, "HT"), ("laplace", 2000.0, "FT"), ("gaussian", 0.55, "HT"), ("gaussian", 100.0, "FT")],
)
def test_little_budget_tunes_the_head_and_much_tunes_everything(mechanism, epsilon, strategy, auto, tmp_path):
    statistics = {"epsilon": max(0.5, epsilon / 4)}
    summary = sordino.run(auto(mechanism, epsilon=epsilon, rounds=2, tuning=statistics), out=tmp_path / "run")
    choice = summary["choice"]
    head, full = choice["constants"].values()
    assert (choice["strategy"], choice["head_rounds"]) == (strategy, 0 if strategy == "FT" else 2)
    assert (head >= full) == (strategy == "FT")
    assert choice["margin"] == head - full
    assert list(choice["constants"]) == (["C1", "C2"] if mechanism == "laplace" else ["E1", "E2"])
    trained = summary["phases"][0]["trained_parameters"]
    assert (trained == summary["parameters"]) == (strategy == "FT")
    kept = json.loads((tmp_path / "run" / "summary.json").read_text())["choice"]
    assert kept["constants"] == choice["constants"]
    assert f"{strategy}: " in choice["sentence"] and "margin" in choice["sentence"]


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_statistics_are_charged_and_the_total_is_the_target(mechanism, auto, tmp_path):
    table = auto(mechanism)
    summary = sordino.run(table, out=tmp_path / "run")
    lines = read_lines(tmp_path / "run" / "ledger.jsonl")
    statistics = [line for line in lines if line.label == "statistic"]
    assert [line.participants for line in statistics] == [(0,), (1,), (2,)] * 2
    for client in range(3):
        events: dict = {}
        for line in statistics:
            if line.participants == (client,):
                events[line.charges[0].event] = events.get(line.charges[0].event, 0) + 1
        assert spent(events, delta=0.0, neighbours="replace-one").epsilon == pytest.approx(0.5, rel=1e-9)
    reached = summary["epsilon"]["public"]["epsilon"]
    assert 0.99 * 2.0 <= reached <= 2.0
    assert make_plan(experiment(table)).epsilon["public"].epsilon == pytest.approx(reached, rel=1e-9)
    alone = make_plan(experiment({**table, "tuning": {"name": "full"}}))
    assert summary["noise_multiplier"] > alone.tariff.noise_multiplier, "training gets what the statistics leave"


def test_noise_of_the_statistics_is_laplace_at_the_charged_scale(auto, tmp_path, monkeypatch):
    """Two-sided: over many seeds, the spread of what was released is that of the lines."""
    from sordino.privacy.door import Permit

    seen, right = [], Permit.release

    def watched(permit, value):
        released = right(permit, value)
        if permit.grant.label == "statistic":
            from sordino.core import unwrap

            (part,) = permit.grant.parts
            scale = part.noise_multiplier * part.clip_bound
            seen.append(float(released.value - unwrap(value)) / scale)
        return released

    monkeypatch.setattr(Permit, "release", watched)
    from sordino.engine.asking import ask_clients
    from sordino.engine.federation import FederationServer
    from sordino.engine.resolved import resolve
    from sordino.engine.run_facts import run_facts
    from sordino.engine.setup import prepare
    from sordino.engine.simulate.simulator import Simulator
    from sordino.privacy.door import Door
    from sordino.privacy.ledger import Ledger
    from sordino.privacy.noise import SeededNoise

    setup = prepare(resolve(experiment(auto())), folder=tmp_path, progress=lambda done, total: None)
    survey = setup.resolved.tuning.survey(setup.whole, run_facts(setup.resolved, setup.loaded.sizes))
    monkeypatch.setattr(type(survey), "measure", lambda self, model, own, context: {"G1²": 0.1, "G2²": 0.1})
    clients = Simulator(setup)
    for seed in range(150):
        clients._noise = lambda client, seed=seed: SeededNoise(stream_id(seed, client))
        federation = FederationServer(
            roster=setup.federated.roster,
            space=setup.space,
            tariff=setup.tariff,
            door=Door(Ledger(clients=3, delta=1e-5, neighbours="replace-one"), SeededNoise(seed)),
            transport=clients.transport,
        )
        ask_clients(federation, survey, setup.space.read(setup.net))
    clients.close()
    draws = torch.tensor(seen)
    assert len(draws) == 900
    assert float(draws.abs().mean()) == pytest.approx(1.0, abs=4 / 30)
    assert float(draws.mean()) == pytest.approx(0.0, abs=4 * 2**0.5 / 30)


@pytest.mark.parametrize("cut", [("choosing", 1), ("training", 1), ("training", 2)])
def test_a_cut_run_makes_the_same_choice_and_ends_in_the_same_bits(cut, auto, tmp_path):
    class Cut(Exception):
        pass

    def watch(moment):
        if (moment.stage, moment.done) == cut:
            raise Cut

    table = experiment(auto())
    run_experiment(table, tmp_path / "whole")
    with pytest.raises(Cut):
        run_experiment(table, tmp_path / "cut", watch=watch)
    run_experiment(table, tmp_path / "cut", resume=True)
    for name in ("model.safetensors", "ledger.jsonl"):
        assert (tmp_path / "cut" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name
    cut_off, whole = (json.loads((tmp_path / name / "summary.json").read_text()) for name in ("cut", "whole"))
    assert cut_off["choice"] == whole["choice"]


def test_a_secure_run_is_charged_for_its_choice_once(auto, tmp_path):
    def watch(moment):
        if moment.stage == "training":
            raise KeyboardInterrupt

    table = experiment(auto(noise_source="secure"))
    with pytest.raises(KeyboardInterrupt):
        run_experiment(table, tmp_path / "run", watch=watch)
    summary = run_experiment(table, tmp_path / "run", resume=True)
    labels = [line.label for line in read_lines(tmp_path / "run" / "ledger.jsonl")]
    assert labels.count("statistic") == 6
    assert summary["epsilon"]["public"]["epsilon"] <= 2.0


def test_all_six_on_request(auto, tmp_path):
    table = auto(tuning={"statistics": "all"})
    table["method"]["batch_size"] = 40
    choice = sordino.run(table, out=tmp_path / "run")["choice"]
    assert list(choice["statistics"]) == ["G1²", "G2²", "Λ1²", "Λ2²", "L"]
    assert choice["units"] == "1"


def test_head_tuning_by_choice_leaves_the_body_alone(auto, tmp_path):
    summary = sordino.run(auto(epsilon=0.55), out=tmp_path / "auto")
    assert summary["choice"]["strategy"] == "HT"
    plain = auto(epsilon=0.55)
    plain["tuning"] = {"name": "head"}
    sordino.run(plain, out=tmp_path / "head")
    one, other = (load_file(tmp_path / run / "model.safetensors") for run in ("auto", "head"))
    assert all(torch.equal(one[name], other[name]) for name in one if name.startswith("body."))


def test_iterations_cost_the_same_budget_and_more_noise(auto, tmp_path):
    """The Laplace multiplier is what ε says; the sensitivity it multiplies is that of the average over own steps."""
    deviations = {}
    for iterations in (1, 5):
        out = tmp_path / str(iterations)
        summary = sordino.run(auto(rounds=1, tuning={"iterations": iterations}), out=out)
        deviations[iterations] = summary["choice"]["statistics"]["G2²"]["noise_deviation"]
        charged = [line for line in read_lines(out / "ledger.jsonl") if line.label == "statistic"]
        assert {line.noise_multiplier for line in charged} == {2 * 2 / 0.5}
    rows = 1797 * 0.8 / 3
    assert deviations[5] / deviations[1] == pytest.approx((2 / rows + 4) / 5 / (2 / rows), rel=0.2)
    assert "averaged over 5" in make_plan(experiment(auto(tuning={"iterations": 5}))).method_facts["statistics"]


def test_the_rule_reckons_with_c2_and_the_noise_stays(auto):
    plain, small, large = (
        make_plan(experiment(auto(tuning={"assumed": [0.5, 0.5], **c2}))) for c2 in ({}, {"c2": 1e-4}, {"c2": 1e4})
    )
    assert plain.tariff.noise_multiplier == small.tariff.noise_multiplier == large.tariff.noise_multiplier
    assert small.method_facts["choice"].startswith("FT") and large.method_facts["choice"].startswith("HT")
    assert "reckoned with c2 = 0.0001" in small.method_facts["noise power"]


@pytest.mark.parametrize(
    ("mechanism", "privacy", "tuning", "sentence"),
    [
        ("laplace", {}, {"c2": 1.0}, "c2 is the constant of the paper's Gaussian noise"),
        ("gaussian", {"epsilon": None, "noise_multiplier": 1.0}, {"c2": 1.0}, "no target ε"),
        ("gaussian", {}, {"c2": 0.0}, "c2 should be greater than or equal to 1e-12"),
        ("gaussian", {}, {"iterations": 0}, "iterations should be greater than or equal to 1"),
    ],
    ids=["laplace", "no-target", "zero", "no-iteration"],
)
def test_bad_iterations_and_constants_get_a_sentence(mechanism, privacy, tuning, sentence, auto):
    with pytest.raises(SordinoError, match=sentence):
        make_plan(experiment(auto(mechanism, tuning=tuning, **privacy)))


@pytest.mark.parametrize(("assumed", "strategy"), [([0.0, 0.0], "HT"), ([1.0, 1.0], "FT")])
def test_a_plan_shows_the_choice_for_assumed_statistics_and_the_break_even(assumed, strategy, auto, monkeypatch):
    from sordino.data.examples import Examples

    def touched(*_):
        raise AssertionError("a plan must not read features")

    monkeypatch.setattr(Examples, "features", touched)
    facts = make_plan(experiment(auto(epsilon=50.0, tuning={"assumed": assumed}))).method_facts
    assert facts["choice"].startswith(f"{strategy}: ")
    assert "break-even at" in facts["choice"]
    assert "FT is possible" in facts["noise power"]
    hopeless = make_plan(experiment(auto(epsilon=0.6))).method_facts
    assert "HT, whatever the statistics say" in hopeless["noise power"]
    assert "choice" not in hopeless


def test_bad_input_is_refused_before_anything_is_released(auto, tiny, tmp_path, monkeypatch):
    def refused(table, match):
        with pytest.raises(SordinoError, match=match):
            sordino.run(table, out=tmp_path / "run")
        assert not (tmp_path / "run" / "ledger.jsonl").exists()

    refused(auto(client_epsilon=[2.0, 0.4, 2.0], epsilon=None), "cost ε = 0.5, but the budget of client 1 is 0.4")
    refused(auto(epsilon=0.5), r"but \[privacy\] epsilon is 0.5")
    refused(tiny(tuning={"name": "auto"}), "chooses for one noisy step")
    many = auto()
    many["method"]["local_steps"] = 2
    refused(many, "local_steps = 1")
    monkeypatch.setattr(Net, "parts", lambda net: {"body": [name for name, _ in net.named_parameters()], "head": []})
    refused(auto(), "model with a trainable head")
